"""The page of a run, rendered from a made-up run directory. What it does in a browser: `test_report_browser`."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.display.metrics import EVALUATION_METRICS
from grpo.errors import ReportError
from grpo.report import write_report
from grpo.report.episodes import Episodes, Source, within_limit
from grpo.report.page import as_script_data
from grpo.report.run import compare, conclusion, load_run
from grpo.types import ModelCall
from tests.support.episodes import lines_of
from tests.support.evaluations import run as run_eval
from tests.support.reports import make_episode, make_run, save, write_lines

REWARD = EVALUATION_METRICS[0]


def test_the_page_loads_nothing_and_escapes_every_mail(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run")).read_text()
    assert "default-src 'none'" in html
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", html.replace("src=x", ""))
    assert "url(" not in html
    assert "@import" not in html
    assert html.count("<script") == html.count("</script") == 2  # the data and the page's own
    assert html.count("\\u003cscript\\u003e") >= 2
    assert "<img" not in html


def save_rewards(root: Path, how: str, before: list[float], after: list[float]) -> None:
    for when, rewards in (("before", before), ("after", after)):
        episodes = [make_episode(i, reward, solved=reward > 0) for i, reward in enumerate(rewards)]
        save(root / "eval" / f"{when}-{how}.jsonl", episodes)


@pytest.mark.parametrize(
    ("how", "before", "after", "said"),
    [
        pytest.param(
            *("sampled", [0, 1, 0, 0, 0], [1, 1, 1, 0, 0]),
            "Held-out reward at temperature 1 did not change beyond noise: from 0.200 to 0.600; difference +0.400, "
            "95 % interval [-0.280, +1.000], paired over 5 scenarios.",
            id="by hand: differences 1, 0, 1, 0, 0 have the standard error sqrt(0.3 / 5); t(0.975, 4) = 2.77645; a share cannot gain more than 1",
        ),
        pytest.param(
            *("greedy", [0, 0], [1.5, 1.5]),
            "Held-out reward with greedy decoding went from 0.000 to 1.500; difference +1.500, "
            "95 % interval [too few to say], paired over 2 scenarios.",
            id="of too few it does not say that nothing changed",
        ),
        pytest.param(
            *("greedy", [1.0, 1.01, 1.02, 1.03, 1.04, 1.06], [0.5, 0.51, 0.52, 0.53, 0.54, 0.58]),
            "Held-out reward with greedy decoding fell from 1.027 to 0.530; difference -0.497, "
            "95 % interval [-0.505, -0.488], paired over 6 scenarios.",
            id="fell",
        ),
        pytest.param(
            *("sampled", [0.1] * 5, [0.1] * 5),
            "Held-out reward at temperature 1 is the same before and after in all 5 scenarios.",
            id="of an unchanged policy it claims nothing",
        ),
    ],
)
def test_the_conclusion_is_the_paired_difference_by_scenario(
    tmp_path: Path, how: str, before: list[float], after: list[float], said: str
) -> None:
    save_rewards(tmp_path, how, before, after)
    assert conclusion(load_run(tmp_path)) == said


def test_the_conclusion_has_a_sentence_on_each_way_of_sampling(tmp_path: Path) -> None:
    for how, count in (("sampled", 6), ("greedy", 8)):
        save_rewards(tmp_path, how, [0.1] * count, [0.6 + 0.01 * i for i in range(count)])
    sampled, greedy = conclusion(load_run(tmp_path)).split(" Held-out")
    assert sampled.startswith("Held-out reward at temperature 1 rose from 0.100 to 0.625; difference +0.525")
    assert sampled.endswith("paired over 6 scenarios.")
    assert greedy.startswith(" reward with greedy decoding rose from 0.100 to 0.635; difference +0.535")
    assert greedy.endswith("paired over 8 scenarios.")


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ([0.0], "GRPO changed nothing: no group of the step had rewards that differ. Held-out reward at temp"),
        (
            [0.0, 0.0],
            "GRPO changed nothing: no group of any of the 2 steps had rewards that differ. Held-out reward at t",
        ),
        ([0.0, 1.0], "Held-out reward at temperature 1 is the same"),
    ],
)
def test_a_run_without_an_update_says_that_it_learned_nothing(tmp_path: Path, used: list[float], said: str) -> None:
    save_rewards(tmp_path, "sampled", [0.1] * 5, [0.1] * 5)
    write_lines(tmp_path / "metrics.jsonl", [{"step": at, "groups/used": value} for at, value in enumerate(used, 1)])
    assert conclusion(load_run(tmp_path)).startswith(said)


def test_failed_episodes_are_counted_and_enter_no_mean(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=8)
    path = root / "eval" / "after-sampled.jsonl"
    records = lines_of(path)
    records[0] |= {"ending": "infrastructure", "reward": None, "error": "server gone"}
    write_lines(path, records)
    summary = json.loads(path.with_suffix(".json").read_text()) | {"failed": 1}
    path.with_suffix(".json").write_text(json.dumps(summary))
    change = compare(load_run(root), "sampled", REWARD)
    assert change is not None
    assert change.difference.n == 7
    assert "1 episode failed in the harness" in write_report(root).read_text()


@pytest.mark.parametrize(
    "missing",
    ["config.json", "metrics.jsonl", "warmstart.jsonl", "eval", "eval/after-sampled.json", "eval/after-sampled.jsonl"],
)
def test_every_part_of_a_run_is_optional(tmp_path: Path, missing: str) -> None:
    root = make_run(tmp_path / "run", episodes=8)
    path = root / missing
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    html = write_report(root).read_text()
    assert ("Nothing to compare yet: 12 of 12 steps done" in html) == (missing == "eval")
    assert ("Gradient norm" in html) == (missing != "metrics.jsonl")
    assert ("imitation loss" in html) == (missing != "warmstart.jsonl")
    assert ("smollm2-135m" in html) == (missing != "config.json")


def test_a_run_with_one_step_and_a_half_written_line_has_a_report(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", steps=1, episodes=3)
    with (root / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "rew')
    html = write_report(root).read_text()
    assert "1 of 12" in html
    assert "NaN" not in html


def test_a_long_run_draws_running_means_instead_of_dots(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run", steps=300, episodes=3)).read_text()
    assert "line c0 faint" in html
    assert 'class="dot' not in html
    assert len(html) < 2_000_000


def test_a_lone_surrogate_in_a_mail_does_not_stop_the_report(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=3)
    for when in ("before", "after"):
        path = root / "eval" / f"{when}-sampled.jsonl"
        path.write_text(path.read_text().replace("the budget review", "the \\ud800 review"))
    assert write_report(root).read_text(encoding="utf-8").count("the ? review") >= 1


def test_what_the_user_keeps_beside_a_runs_files_is_not_the_runs(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=3)
    page = write_report(root).read_text()
    write_lines(root / "eval" / "results.jsonl", [{"error": "none"}])
    (root / "eval" / "notes.json").write_text("not JSON")
    write_lines(root / "trajectories" / "step-0001 (copy).jsonl", [{"mine": 1}])
    assert write_report(root).read_text() == page


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("eval/after-sampled.json", b"\0", "is not JSON"),
        ("eval/after-sampled.jsonl", b"{}\n", r"record \d+: this is no saved episode"),
        ("eval/after-sampled.jsonl", b"\xff binary\n{}\n", r"line \d+ is not JSON"),
        ("trajectories/step-0009.jsonl", b"{broken\n{}\n", "line 1 is not JSON"),
        ("metrics.jsonl", b"\xff\n{}\n", r"line \d+ is not JSON"),
        ("warmstart.jsonl", b"[]\n{}\n", r"line \d+ is not a JSON object"),
    ],
)
def test_a_damaged_record_is_left_out_and_named(tmp_path: Path, name: str, damage: bytes, said: str) -> None:
    root = make_run(tmp_path / "run", episodes=3)
    (root / "trajectories").mkdir(exist_ok=True)
    with (root / name).open("ab") as file:
        file.write(damage)
    page = html.unescape(write_report(root).read_text(encoding="utf-8"))
    assert re.search(f"Left out: {root / name} {said}", page)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.json", "[]", r"config\.json is not a JSON object; mend or remove that file"),
        ("notes.txt", "", "is it a run directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_so_is_a_folder_without_a_run(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(ReportError, match=said):
        write_report(tmp_path)


def test_a_judged_run_shows_how_far_judge_and_env_disagree(tmp_path):
    write_lines(
        tmp_path / "metrics.jsonl", [{"step": n, "reward/mean": 0.5, "judge/disagreement": n / 10} for n in (1, 2)]
    )
    page = write_report(tmp_path).read_text()
    assert "Judge against env" in page
    assert "share of pairs ordered the other way; 0.5 is chance" in page
    write_lines(tmp_path / "metrics.jsonl", [{"step": n, "reward/mean": 0.5} for n in (1, 2)])
    assert "Judge against env" not in write_report(tmp_path).read_text()


@given(st.dictionaries(st.text(), st.lists(st.text() | st.sampled_from(["</script", "<!--", "]]>", "&lt;"]))))
def test_data_in_the_page_survives_and_cannot_end_its_element(lists: dict[str, list[str]]) -> None:
    data = "".join(as_script_data(lists))
    assert json.loads(data) == lists
    assert not re.search("[<>&]", data)


def test_every_text_stands_once_in_the_data() -> None:
    episodes = Episodes()
    episodes.add(Source("step 1"), [make_episode(n, 1.0, solved=True) for n in (0, 3, 6)])
    data = episodes.to_data([])
    assert len(set(data["texts"])) == len(data["texts"])
    first, second, _ = data["episodes"]
    assert first["blocks"] == second["blocks"]
    call = first["blocks"][0]
    assert (call[0], data["texts"][call[1]], call[3]) == ("call", "search_inbox", 0)
    assert [block[3] for block in first["blocks"]] == [0, -1, 1, -1, 2]


@pytest.mark.parametrize(
    ("room", "expected"), [(100, [1, 2, 3, 4, 5]), (40, [1, 2, 4, 5]), (25, [1, 5]), (10, [1]), (9, [])]
)
def test_a_page_takes_whole_steps_from_the_first_to_the_last(room: int, expected: list[int]) -> None:
    assert within_limit(dict.fromkeys(range(1, 6), 10), room) == expected


def test_the_page_of_an_evaluation_says_what_is_missing_and_what_failed(tmp_path: Path) -> None:
    out = tmp_path / "e"
    run_eval("--agent", "oracle", "--limit", "4", "--out", str(out), count=4)
    rows = lines_of(out / "results.jsonl")
    rows[0] |= {"ending": "infrastructure", "correct": None, "reward": None, "error": "<b>gone</b>"}
    write_lines(out / "results.jsonl", rows[:3])
    html = write_report(out).read_text()
    assert "oracle: 1 of 4 episodes have not been played; --resume plays them." in html
    assert "oracle: 1 episode ended in infrastructure failures, in no mean." in html
    assert "&lt;b&gt;gone" in html
    assert "oracle is right in 100.0 % of 2 episodes on 2 scenarios" in html
    write_lines(out / "results.jsonl", rows[:1])
    assert "No episode of oracle has been played to an end yet." in write_report(out).read_text()


def test_a_logprob_that_was_not_finite_is_shown_as_none_at_all() -> None:
    episodes = Episodes()
    sampled = [["a", -0.5, "b", None], ["c", float("-inf")]]  # None as JSON has it
    calls = [ModelCall(sampled=turn) for turn in sampled]
    episodes.add(Source("after"), [make_episode(0, 1.0, solved=True, calls=calls)])
    (shown,) = episodes.to_data([])["episodes"]
    assert shown["sampled"] == [["a", -0.5, "b", -999.0], ["c", -999.0]]


def test_what_a_judge_refuses_of_what_the_rule_accepted_stands_on_the_page(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=4)
    assert "Audit of the rule" not in write_report(root).read_text(), "there is none yet"
    audit = {"decided_by": "judge", "question": "How <much>?", "answer": "half of $4"}
    verdicts = [{"accept": False, "reasoning": "Only half of it."}] * 2 + [
        {"accept": True, "reasoning": "The same."}
    ] * 6
    records = [make_episode(i, 1.0, solved=True, audit=audit | verdict) for i, verdict in enumerate(verdicts)]
    save(root / "trajectories" / "step-0003.jsonl", [*records, make_episode(9, 1.0, solved=True)])
    html = write_report(root).read_text()
    assert "Of 8 answers that the rule took for right and the judge saw, too, the judge refuses 2." in html
    assert html.count("<br>Only half of it.</td>") == 2
    assert "How &lt;much&gt;?" in html
    assert (
        "The answer judge refuses 2 of 8 audited answers that the rule took for right, above the bound of 10%" in html
    )
    assert "Audit: the judge contradicts the rule, which took it for right. Only half of it." in html
