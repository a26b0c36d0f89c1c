"""The pages of a run and of evaluations, opened in headless Chromium: drawn, filtered, searched; hostile mail is inert."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo.ending import Ending
from grpo.report import write_report
from grpo.types import ModelCall
from tests.support.browser import ROWS, Page, click, needs_chromium, text
from tests.support.evaluations import play_tiny_policy, rows, run
from tests.support.reports import HOSTILE, call, make_episode, make_run, save, write_lines

pytestmark = [pytest.mark.browser, needs_chromium]

COUNT = "document.getElementById('count').textContent"
OWNED = "document.documentElement.dataset.owned || ''"
READY = "document.documentElement.dataset.ready"


def play_wrong_and_oracle(folder: Path, limit: int) -> tuple[Path, Path]:
    """Two evaluations of the same sums."""
    for agent in ("wrong", "oracle"):
        out = str(folder / agent)
        assert run("--agent", agent, "--limit", str(limit), "--out", out, count=limit).exit_code == 0
    return folder / "wrong", folder / "oracle"


def test_the_page_of_a_run_is_drawn_without_complaints(tmp_path: Path) -> None:
    with Page(write_report(make_run(tmp_path / "run")), tmp_path / "profile") as page:
        assert page.value(READY) == "yes"
        assert page.value("document.querySelectorAll('svg.chart').length") == 12
        assert page.value("document.querySelectorAll('#pairs .pair').length") == 8
        assert "Held-out reward at temperature 1 rose" in page.value(text("#conclusion"))
        assert page.value(COUNT) == "256 episodes"
        assert page.value(ROWS) == 50
        assert page.messages == []


def test_a_turn_without_a_word_and_a_call_without_arguments_are_drawn(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=6)
    records = [make_episode(0, 1.25, solved=True), make_episode(1, -0.5, solved=False)]
    records[0].messages[2]["content"] = call("search_inbox")
    records[1].messages[-1]["content"] = ""
    save(root / "trajectories" / "step-0007.jsonl", records)
    with Page(write_report(root), tmp_path / "profile") as page:
        page.choose("[name=source]", "step 7")
        for number in (0, 1):
            page.value(f"[...document.querySelectorAll('#list .head')][{number}].click()")
        shown = page.value("[...document.querySelectorAll('.detail .call')].map(call => call.textContent)")
        assert shown[:2] == ["search_inbox ", 'read_email message_id="m4821"']


def test_filters_and_search_narrow_the_list(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=6)
    records = [make_episode(n, 1.25 if n < 4 else -0.5, solved=n < 4) for n in range(10)]
    records[3].messages[-1]["content"] = "Zanzibar"
    records[9].ending = Ending.CONTEXT_FULL
    save(root / "trajectories" / "step-0007.jsonl", records)
    with Page(write_report(root), tmp_path / "profile") as page:
        assert page.value(COUNT) == "34 episodes"
        page.choose("[name=source]", "step 7")
        assert page.value(COUNT) == "10 of 34 episodes"
        page.choose("[name=outcome]", "wrong")
        assert page.value(COUNT) == "6 of 34 episodes"
        page.choose("[name=difficulty]", "easy")  # of 4 to 9: 6 and 9
        assert page.value(COUNT) == "2 of 34 episodes"
        page.choose("[name=error]", "context_full")
        assert page.value(COUNT) == "1 of 34 episodes"
        assert page.value("location.hash") == "#outcome=wrong&source=step+7&difficulty=easy&error=context_full"
        page.value(click("#filters [type=reset]"))
        page.value("new Promise(done => setTimeout(done, 50))")
        assert page.value(COUNT) == "34 episodes"
        page.type("[name=low]", "1.2")
        page.choose("[name=split]", "train")
        assert page.value(COUNT) == "4 of 34 episodes"
        page.type("[name=low]", "")
        page.choose("[name=split]", "")
        page.type("[name=q]", "zanzibar")
        assert page.value(COUNT) == "1 of 34 episodes"
        assert page.value("[...document.querySelectorAll('#list mark')].map(m => m.textContent)") == ["Zanzibar"]
        page.type("[name=q]", "no such thing")
        assert page.value(text("#list")) == "No episode fits."
        assert page.messages == []


def test_a_link_opens_the_page_filtered(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run", episodes=6))
    with Page(path, tmp_path / "profile", "#q=test-0002&source=after,+greedy") as page:
        assert page.value(COUNT) == "1 of 24 episodes"
        shown = page.value("[...document.querySelectorAll('#list .side h3')].map(h => h.textContent)")
        assert shown == ["before, greedy", "after, greedy"]


def test_a_group_stands_side_by_side_with_rewards_and_judges_reasons(tmp_path: Path) -> None:
    members = [
        make_episode(0, reward, solved=reward > 1, sample_index=n, explanation=f"reason {n}")
        for n, reward in enumerate([1.3, -0.8, 0.1])
    ]
    save(tmp_path / "run/trajectories/step-0001.jsonl", members)
    with Page(write_report(tmp_path / "run"), tmp_path / "profile") as page:
        page.value(click("#list .head"))
        assert page.value("document.querySelectorAll('.detail .side').length") == 3
        strip = page.value("[...document.querySelectorAll('.strip button')].map(b => b.textContent + b.className)")
        assert strip == ["1.30chip bare good", "-0.80chip bare bad", "0.10chip bare bad"]
        judged = "[...document.querySelectorAll('.detail .judge')].map(p => p.textContent)"
        assert page.value(judged) == ["Judge: reason 0", "Judge: reason 1", "Judge: reason 2"]
        page.value(click(".strip button"))
        assert page.value(judged) == ["Judge: reason 1", "Judge: reason 2"]
        assert page.value("document.querySelectorAll('.detail details.observation:not([open])').length") == 4
        page.value(click("[data-unfold]"))
        assert page.value("document.querySelectorAll('.detail details.observation[open]').length") == 4


def test_sampled_tokens_are_coloured_by_their_probability(tmp_path: Path) -> None:
    record = make_episode(0, 1.3, solved=True)
    sampled = (["sea", -0.01, "rch", -3.5], ["read", -0.7], ["answer", -1.0, "", -0.2])
    record.calls = [ModelCall(sampled=turn) for turn in sampled]
    save(tmp_path / "run/trajectories/step-0001.jsonl", [record])
    with Page(write_report(tmp_path / "run"), tmp_path / "profile") as page:
        assert page.value("document.querySelectorAll('.tokens').length") == 0
        page.value(click("[data-tokens]"))
        spans = page.value("[...document.querySelectorAll('.tokens span')].map(s => s.className + ' ' + s.textContent)")
        assert spans == ["t0 sea", "t4 rch", "t2 read", "t2 answer", "t1 ∎"]
        assert page.value("document.querySelectorAll('#list .observation').length") == 2
        assert page.value("document.querySelector('.tokens span').title") == "99.0 %, logprob -0.01"


@pytest.mark.torch
def test_the_tokens_of_an_evaluated_policy_are_coloured_too(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    folder = play_tiny_policy(tmp_path)
    calls = rows(folder)[0]["calls"]
    with Page(write_report(folder), tmp_path / "profile") as page:
        if page.value("!document.querySelector('.detail')"):
            page.value(click("#list [aria-expanded=false]"))
        page.value(click("[data-tokens]"))
        assert page.value(text(".legend")).startswith("What the policy sampled, by its probability")
        spans = page.value(
            "[...document.querySelector('#list .side').querySelectorAll('.tokens span')].map(s => s.title)"
        )
        logprobs = [float(title.rpartition(" ")[2]) for title in spans]
        assert logprobs == [logprob for call in calls for logprob in call["sampled"][1::2]]
        assert page.messages == []


@pytest.mark.parametrize("place", ["mail", "question", "explanation", "scenario", "config", "token"])
def test_a_script_in_any_text_is_inert(tmp_path: Path, place: str) -> None:
    hostile = "<!--<script>" + HOSTILE
    record = make_episode(0, 1.3, solved=True)
    config: dict[str, Any] = {"env": "EmailSearch-v0"}
    if place == "config":
        config |= {"env": hostile, "model": hostile}
    elif place == "question":
        record.messages[1]["content"] = hostile
    elif place == "token":
        record.calls = [ModelCall(sampled=[hostile, -1.0])]
    elif place in ("explanation", "scenario"):
        record.task = replace(record.task, scenario_id=hostile) if place == "scenario" else record.task
        record.explanation = hostile if place == "explanation" else None
    root = tmp_path / "run"
    save(root / "eval/after-sampled.jsonl", [record])
    (root / "config.json").write_text(json.dumps(config))
    with Page(write_report(root), tmp_path / "profile") as page:
        page.value(click("#list [aria-expanded=false]") if page.value("!document.querySelector('.detail')") else "1")
        page.value(click("[data-unfold]"))
        if place == "token":
            page.value(click("[data-tokens]"))
        assert "<script>" in page.value("document.querySelector('main').textContent")
        assert page.value("document.querySelectorAll('img, script:not(#data)').length") == 1
        assert page.value(OWNED) == ""
        assert page.messages == []


def test_a_script_is_inert_even_where_escaping_is_gone(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run", episodes=6)).read_text()
    for escaped, plain in (("\\u003c", "<"), ("\\u003e", ">"), ("&lt;", "<"), ("&gt;", ">"), ('\\"', '"')):
        html = html.replace(escaped, plain)
    unescaped = tmp_path / "unescaped.html"
    unescaped.write_text(html)  # the mail's scripts are elements now; the content security policy stands alone
    with Page(unescaped, tmp_path / "profile") as page:
        assert page.value("document.querySelectorAll('img').length") > 0
        assert page.value(OWNED) == ""
        assert any("Content Security Policy" in message for message in page.messages)
    unescaped.write_text(html.replace("Content-Security-Policy", "x"))
    with Page(unescaped, tmp_path / "profile") as page:
        assert page.value(OWNED) == "1"


def test_five_thousand_episodes_open_filter_and_turn_pages(tmp_path: Path) -> None:
    rng = random.Random(3)
    words = [f"word{n}" for n in range(300)]
    for step in range(1, 51):
        records = []
        for n in range(100):
            record = make_episode(n // 10, rng.choice([1.3, -0.8]), solved=rng.random() < 0.5, sample_index=n % 10)
            record.messages[3]["content"] += " ".join(rng.choices(words, k=120))
            records.append(record)
        records[0].messages[3]["content"] += f" needle{step}"
        save(tmp_path / f"run/trajectories/step-{step:04d}.jsonl", records)
    path = write_report(tmp_path / "run")
    with Page(path, tmp_path / "profile") as page:
        assert page.value(COUNT) == "5,000 episodes"
        assert page.value(ROWS) == 50
        assert page.value("document.querySelectorAll('*').length") < 2000
        page.type("[name=q]", "needle37")
        assert page.value(COUNT) == "1 of 5,000 episodes"
        page.type("[name=q]", "")
        page.choose("[name=source]", "step 12")
        page.value(click("#pages [data-page='1']"))
        assert page.value(text("#pages span")) == "51 to 100 of 100"
        assert page.value(ROWS) == 50
        assert page.messages == []


def test_the_page_of_an_evaluation_leads_to_its_worst_scenarios(tmp_path: Path) -> None:
    assert run("--agent", "wrong", "-k", "2", "--limit", "8", "--out", str(tmp_path / "e"), count=8).exit_code == 0
    with Page(write_report(tmp_path / "e"), tmp_path / "profile") as page:
        assert "wrong is right in 25.0 % of 16 episodes on 8 scenarios" in page.value(text("#conclusion"))
        assert "25.0 %" in page.value(text("section.evaluation"))
        assert page.value(text(".listed tbody a")) == "sum/1"
        page.value(click(".listed tbody a"))
        page.value("new Promise(done => setTimeout(done, 50))")
        assert page.value(COUNT) == "2 of 16 episodes"
        page.value(click("#list .head"))
        assert page.value("document.querySelectorAll('.detail .side').length") == 2
        page.choose("[name=outcome]", "right")
        assert page.value(COUNT) == "0 of 16 episodes"
        assert page.messages == []


def test_what_a_hostile_agent_says_is_inert_too(tmp_path: Path) -> None:
    assert run("--agent", "tests.support.agents:hostile", "--out", str(tmp_path / "e"), count=2).exit_code == 0
    with Page(write_report(tmp_path / "e"), tmp_path / "profile") as page:
        for number in (0, 1):
            page.value(f"[...document.querySelectorAll('#list .head')][{number}].click()")
            assert "<script>" in page.value("document.querySelector('.detail').textContent")
        page.value(click("[data-unfold]"))
        assert "RuntimeError: </pre>" in page.value("document.querySelector('main').textContent")
        assert page.value("document.querySelectorAll('img, script:not(#data)').length") == 1
        assert page.value(OWNED) == ""
        assert page.messages == []


def test_an_env_that_does_not_say_what_is_right_has_rewards_alone(tmp_path: Path) -> None:
    out = tmp_path / "e"
    assert run("--agent", "random", "-k", "2", "--limit", "3", "--out", str(out), env="CartPole-v1").exit_code == 0
    with Page(write_report(out), tmp_path / "profile") as page:
        assert "random has a mean reward of" in page.value(text("#conclusion"))
        assert page.value("document.querySelector('[name=outcome]').hidden")
        assert page.value("document.querySelectorAll('.sign').length") == 0
        heads = page.value("[...document.querySelectorAll('.listed th')].map(h => h.textContent)")
        assert heads == ["Scenario", "Question", "Reward"]
        assert "nswer" not in page.value("document.querySelector('main').innerText")
        page.value(click("#list .head"))
        assert page.value("document.querySelectorAll('.detail .side').length") == 2
        assert page.messages == []


def test_the_columns_of_a_map_stand_below_each_other(tmp_path: Path) -> None:
    out = tmp_path / "e"
    assert run("--agent", "random", "--limit", "1", "--out", str(out), env="CliffWalking-v1").exit_code == 0
    with Page(write_report(out), tmp_path / "profile") as page:
        assert "o  o  o" in page.value(text("#list .question"))
        page.value(click("[data-unfold]"))
        for place in ("#list .question", "#list .observation pre"):
            assert "monospace" in page.value(f"getComputedStyle(document.querySelector('{place}')).fontFamily")


def test_two_evaluations_stand_side_by_side(tmp_path: Path) -> None:
    wrong, oracle = play_wrong_and_oracle(tmp_path, 8)
    with Page(write_report(wrong, oracle), tmp_path / "profile") as page:
        assert page.value(text("#conclusion")).startswith("oracle has more success than wrong: 25.0 % → 100.0 %")
        assert page.value("[...document.querySelectorAll('#pairs .chip.good.bare')].length") == 6
        assert "6 scenarios right with oracle alone, 0 with" in page.value(text(".under"))
        page.choose("[name=source]", "oracle")
        assert page.value(COUNT) == "8 of 16 episodes"
        page.value(click("#list .head"))
        shown = page.value("[...document.querySelectorAll('.detail .side h3')].map(h => h.textContent)")
        assert shown == ["wrong", "oracle"]


def test_no_table_is_wider_than_its_box(tmp_path: Path) -> None:
    """The window of a laptop, half of a large one, and wider than the page ever is; the fonts are the machine's."""
    wrong, oracle = play_wrong_and_oracle(tmp_path, 4)
    kinds = [f"a_kind_of_wrong_call_{number}" for number in range(6)] * 12  # a long row of the table
    for folder in (wrong, oracle):
        write_lines(folder / "results.jsonl", [row | {"turn_errors": kinds} for row in rows(folder)])
    pages = {
        "run": write_report(make_run(tmp_path / "run")),
        "evaluation": write_report(wrong),
        "comparison": write_report(wrong, oracle),
    }
    boxes = "[...document.querySelectorAll('table')].map(t => t.parentElement)"
    for name, path in pages.items():
        with Page(path, tmp_path / "profile") as page:
            page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert name == "run" or "a_kind_of_wrong_call_5 48" in page.value(text("section.evaluation"))
            assert page.value(f"{boxes}.length") == {"run": 3, "evaluation": 2, "comparison": 1}[name]
            for width in (960, 1100, 1280, 1600):
                page.resize(width)
                overflow = page.value(f"{boxes}.map(b => b.scrollWidth - b.clientWidth)")
                assert set(overflow) == {0}, (name, width, overflow)
