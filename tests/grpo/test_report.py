"""The report is rendered from a made-up run directory and opened in headless Chromium."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grpo.errors import ReportError
from grpo.metrics import EVALUATION_METRICS
from grpo.report import write_report
from grpo.report_charts import Series, line_chart, nice_ticks, stacked_bars, trailing_mean
from grpo.report_data import compare, load_run, verdict
from grpo.report_transcripts import blocks_of, chips_of, choose_pairs
from grpo.statistics import mean_interval

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "</pre></details><script>document.documentElement.dataset.owned='yes'</script><img src=x onerror=\"document.documentElement.dataset.owned=1\">"
REWARD = EVALUATION_METRICS[0]


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def make_trajectory(index: int, reward: float, *, solved: bool, turns: int = 3) -> dict[str, Any]:
    difficulty = ("easy", "medium", "hard")[index % 3]
    question = [
        "When does the budget review for Falcon take place now?",
        "Which hotel did Maria book for the Lisbon offsite?",
        "How much did the second quote from Norwind come to?",
    ][index % 3]
    messages = [
        {
            "role": "system",
            "content": "You answer questions from the mailbox anna.keller@brightline.example. Today is 2024-03-20.",
        },
        {"role": "user", "content": question},
        {"role": "assistant", "content": call("search_inbox", keywords=["falcon", "budget review"])},
        {
            "role": "tool",
            "content": "m4821 | 2024-03-05 | Jonas Weber | Re: Falcon budget | moved to Thursday, same room\n"
            f"m4712 | 2024-03-01 | {HOSTILE} | Falcon budget | the review is on Tuesday",
        },
    ]
    if solved:
        messages += [
            {"role": "assistant", "content": call("read_email", message_id="m4821")},
            {
                "role": "tool",
                "content": f"From: Jonas Weber <jonas@x.example>\nSubject: Re: Falcon budget\n\n{HOSTILE}\nWe moved it to Thursday.",
            },
            {"role": "assistant", "content": call("return_final_answer", answer="Thursday", sources=["m4821"])},
        ]
    else:
        messages += [
            {"role": "assistant", "content": 'I think <tool_call>{"name": "read_email", arguments'},
            {"role": "tool", "content": 'Error: the call is not JSON. Write {"name": ..., "arguments": {...}}.'},
            {"role": "assistant", "content": "It is on Tuesday."},
        ]
    flags = {f"difficulty_{name}": float(name == difficulty) for name in ("easy", "medium", "hard")}
    metrics = {
        "success": float(solved), "found": 1.0, "read": float(solved), "turns": float(turns),
        "valid_call_rate": 1.0 if solved else 0.5, "invalid_calls": 0.0 if solved else 1.0, **flags,
    }  # fmt: skip
    return {
        "env": "EmailSearch-v0", "scenario_id": f"test-{index:04d}", "seed": index, "sample": 0, "policy_version": 0,
        "reward": reward, "metrics": metrics, "stop_reason": "terminated", "error": "", "explanation": None,
        "num_sampled_tokens": 90 + index % 7, "num_tokens": 600, "messages": messages,
    }  # fmt: skip


def summarise(label: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    def means(chosen: list[dict[str, Any]]) -> dict[str, Any]:
        columns = {
            "reward": [r["reward"] for r in chosen],
            "completion_tokens": [r["num_sampled_tokens"] for r in chosen],
        }
        columns |= {
            n: [r["metrics"][n] for r in chosen] for n in ("success", "found", "read", "valid_call_rate", "turns")
        }
        return {name: mean_interval(values).to_dict() for name, values in columns.items()}

    names = ("easy", "medium", "hard")
    return {
        "label": label, "split": "test", "temperature": 0.0 if "greedy" in label else 1.0, "seed": 1, "policy": 0,
        "episodes": len(records), "failed": 0, "scenarios": len(records), "seconds": 31.0,
        "sampled_tokens_per_second": 320.0, "metrics": means(records),
        "slices": {n: means([r for r in records if r["metrics"][f"difficulty_{n}"]]) for n in names},
    }  # fmt: skip


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def make_run(root: Path, *, steps: int = 12, episodes: int = 64) -> Path:
    rng = random.Random(5)
    root.mkdir(parents=True)
    config = {"env": "EmailSearch-v0", "model": "smollm2-135m", "steps": 12, "report_samples": 8, "env_kwargs": {"max_turns": 6},
              "learning_rate": 3e-4, "group_size": 8, "groups_per_step": 8, "seed": 0, "rubric": None}  # fmt: skip
    (root / "config.json").write_text(json.dumps(config))
    lines = []
    for step in range(1, steps + 1):
        share = 0.28 + 0.025 * step + rng.uniform(-0.05, 0.05)
        lines.append({
            "step": step, "reward/mean": share * 1.2 - 0.2, "reward/std": 0.5, "env/success": share, "env/found": share + 0.2,
            "env/read": share + 0.1, "env/valid_call_rate": 0.9 + 0.007 * step, "tokens/completion_mean": 110 - step,
            "loss/policy": rng.uniform(-0.02, 0.02), "loss/grad_norm": 0.4 + rng.random() / 4, "loss/entropy": 0.5 - step / 50,
            "gap/mean_abs": 0.002 + rng.random() / 500, "groups/used": 6.0 - step % 3, "groups/dropped": 2.0 + step % 3,
            "time/rollout": 24 + rng.random() * 6, "time/train": 18 + rng.random() * 4, "time/publish": 0.14, "time/step": 46.0,
            "speed/sample_tokens_per_second": 320 + rng.random() * 30, "speed/train_tokens_per_second": 690 + rng.random() * 40,
            "mem/trainer_rss_gb": 2.1 + step / 100,
        })  # fmt: skip
    write_lines(root / "metrics.jsonl", lines)
    warm = [{"step": i, "loss": 2.2 * 0.9**i + 0.1, "seconds": 2.0} for i in range(1, 61)]
    write_lines(root / "warmstart.jsonl", warm)
    for how, chances in (("sampled", (0.3, 0.55)), ("greedy", (0.5, 0.6))):
        for when, chance in zip(("before", "after"), chances, strict=True):
            records = []
            for index in range(episodes):
                solved = rng.random() < chance + (0.15, 0, -0.15)[index % 3]
                reward = 1.3 if solved else rng.choice([-0.8, -0.7, 0.1])
                records.append(make_trajectory(index, reward, solved=solved))
            write_lines(root / "eval" / f"{when}-{how}.jsonl", records)
            (root / "eval" / f"{when}-{how}.json").write_text(json.dumps(summarise(f"{when}-{how}", records)))
    return root


def dump_dom(page: Path, folder: Path, *, console: bool = True) -> str:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--enable-logging=stderr", f"--user-data-dir={folder}"]  # fmt: skip
    result = subprocess.run(
        [CHROMIUM or "", *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert not console or "CONSOLE" not in result.stderr, result.stderr
    return result.stdout


needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)


@pytest.mark.browser
@needs_chromium
def test_the_page_renders_in_chromium_without_console_errors_and_its_script_runs(tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path / "run"))
    dom = dump_dom(page, tmp_path / "profile")
    assert '<html lang="en" data-ready="yes">' in dom
    assert dom.count('<svg class="chart"') == 12
    assert "Held-out reward at temperature 1 rose" in dom
    assert dom.count('class="card pair"') == 8


@pytest.mark.browser
@needs_chromium
def test_a_script_in_a_mail_is_inert_even_where_escaping_is_gone(tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path / "run"))
    dom = dump_dom(page, tmp_path / "profile")
    assert "data-owned" not in dom.split("<body>")[0]
    assert dom.count("<script") == 1
    assert "<img" not in dom

    html = page.read_text().replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&#34;", '"')
    unescaped = tmp_path / "unescaped.html"
    unescaped.write_text(html)  # the mail's scripts are elements now; the content security policy stands alone
    assert "data-owned" not in dump_dom(unescaped, tmp_path / "profile", console=False).split("<body>")[0]
    unescaped.write_text(html.replace("Content-Security-Policy", "x"))
    assert "data-owned" in dump_dom(unescaped, tmp_path / "profile", console=False).split("<body>")[0]


def test_the_page_loads_nothing_and_escapes_every_mail(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run")).read_text()
    assert "default-src 'none'" in html
    assert not re.search(r"""(?:src|href)\s*=\s*["']""", html.replace("src=x", ""))
    assert "url(" not in html
    assert "@import" not in html
    assert html.count("<script") == 1
    assert html.count("&lt;script&gt;") > 8


def test_the_verdict_is_the_paired_difference_by_scenario(tmp_path: Path) -> None:
    """By hand: differences 1, 0, 1, 0 have mean 0.5 and standard error sqrt(1/3)/2 = 0.2887; t(0.975, 3) = 3.1824."""
    root = tmp_path / "run"
    for when, rewards in (("before", [0, 1, 0, 0]), ("after", [1, 1, 1, 0])):
        records = [make_trajectory(i, float(r), solved=bool(r)) for i, r in enumerate(rewards)]
        write_lines(root / "eval" / f"{when}-sampled.jsonl", records)
        (root / "eval" / f"{when}-sampled.json").write_text(json.dumps(summarise(f"{when}-sampled", records[:3] * 2)))
    change = compare(load_run(root), "sampled", REWARD)
    assert change is not None
    assert change.difference.mean == pytest.approx(0.5)
    assert change.difference.low == pytest.approx(0.5 - 3.18245 * 0.288675, abs=1e-4)
    assert verdict(load_run(root)) == (
        "Held-out reward at temperature 1 did not change beyond noise: from 0.250 to 0.750; difference +0.500, "
        "95 % interval [-0.419, +1.419], paired over 4 scenarios."
    )


def test_the_verdict_says_when_the_reward_fell(tmp_path: Path) -> None:
    root = tmp_path / "run"
    for when, base in (("before", 1.0), ("after", 0.5)):
        records = [make_trajectory(i, base + 0.01 * i, solved=True) for i in range(6)]
        records[-1]["reward"] = base + 0.06
        write_lines(root / "eval" / f"{when}-greedy.jsonl", records)
        (root / "eval" / f"{when}-greedy.json").write_text(json.dumps(summarise(f"{when}-greedy", records)))
    assert verdict(load_run(root)).startswith(
        "Held-out reward with greedy decoding fell from 1.027 to 0.527; difference -0.500"
    )


def test_the_verdict_of_an_unchanged_policy_claims_nothing(tmp_path: Path) -> None:
    root = tmp_path / "run"
    for when in ("before", "after"):
        write_lines(root / "eval" / f"{when}-sampled.jsonl", [make_trajectory(i, 0.1, solved=False) for i in range(5)])
    expected = "Held-out reward at temperature 1 is the same before and after in all 5 episodes."
    assert verdict(load_run(root)) == expected


def test_failed_episodes_are_counted_and_enter_no_mean(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=8)
    path = root / "eval" / "after-sampled.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[0] |= {"stop_reason": "failed", "reward": 0.0, "error": "server gone"}
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


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="is it a run directory"):
        write_report(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ReportError, match="can't be reported on"):
        write_report(tmp_path)


def test_transcripts_show_improved_worse_and_unsolved_questions_once_each() -> None:
    before = [make_trajectory(i, r, solved=r > 1) for i, r in enumerate([0.1, 0.2, 1.3, -0.8, 0.0, 1.3, 1.2, 0.1])]
    after = [make_trajectory(i, r, solved=r > 1) for i, r in enumerate([1.3, 1.2, 0.1, -0.8, 0.1, 1.3, 1.2, 1.1])]
    pairs = choose_pairs(before, after, 6)
    assert [(pair.why, pair.scenario_id) for pair in pairs] == [
        ("Improved", "test-0000"),
        ("Improved", "test-0001"),
        ("Improved", "test-0007"),
        ("Improved", "test-0004"),
        ("Got worse", "test-0002"),
        ("Still unsolved", "test-0003"),
    ]
    assert [pair.change for pair in pairs[:2]] == ["+1.20", "+1.00"]
    assert choose_pairs(before, after, 0) == []


def test_transcripts_of_one_side_show_its_best_and_its_worst() -> None:
    records = [make_trajectory(i, float(i), solved=True) for i in range(5)]
    pairs = choose_pairs(records, [], 4)
    assert [(pair.why, pair.scenario_id) for pair in pairs] == [
        ("Best", "test-0004"),
        ("Best", "test-0003"),
        ("Worst", "test-0000"),
        ("Worst", "test-0001"),
    ]
    assert all(pair.after is None for pair in pairs)


def test_turns_become_calls_text_broken_calls_and_observations() -> None:
    solved = blocks_of(make_trajectory(0, 1.3, solved=True))
    assert [block.kind for block in solved] == ["call", "observation", "call", "observation", "call"]
    assert (solved[4].title, solved[4].body) == ("return_final_answer", 'answer="Thursday", sources=["m4821"]')
    assert solved[1].title.endswith("(+1 lines)")
    unsolved = blocks_of(make_trajectory(0, 0.1, solved=False))
    assert [block.kind for block in unsolved] == ["call", "observation", "text", "broken", "observation", "text"]


def test_a_bare_json_call_and_openai_tool_calls_are_calls_too() -> None:
    bare = {"role": "assistant", "content": '{"name": "act", "arguments": {"action": 2}}'}
    tools = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "act", "arguments": '{"action": 3}'}}],
    }
    odd = {"role": "assistant", "content": '{"name": 3}'}
    blocks = blocks_of({"messages": [bare, tools, odd]})
    assert [(block.kind, block.title, block.body) for block in blocks] == [
        ("call", "act", "action=2"),
        ("call", "act", "action=3"),
        ("text", "", '{"name": 3}'),
    ]


def test_chips_say_what_happened() -> None:
    record = make_trajectory(1, -0.8, solved=False) | {"stop_reason": "context_full"}
    assert [(chip.text, chip.tone) for chip in chips_of(record)] == [
        ("reward -0.800", "plain"),
        ("success", "bad"),
        ("found", "good"),
        ("read", "bad"),
        ("1 invalid call", "bad"),
        ("3 turns", "plain"),
        ("91 tokens", "plain"),
        ("context full", "bad"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 0.25, 0.5, 0.75, 1.0]),
        (0.13, 0.48, [0.1, 0.2, 0.3, 0.4, 0.5]),
        (-0.018, 0.021, [-0.02, -0.01, 0, 0.01, 0.02, 0.03]),
        (300, 340, [300, 310, 320, 330, 340]),
        (1.1801, 1.1802, [1.0, 1.1, 1.2, 1.3]),
        (5, 5, [4.5, 4.75, 5.0, 5.25, 5.5]),
    ],
)
def test_ticks_are_round_and_enclose_the_values(low: float, high: float, expected: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(expected)


def test_the_running_mean_looks_back_over_a_tenth_of_the_curve() -> None:
    points = [(float(i), float(i)) for i in range(20)]
    assert trailing_mean(points)[:3] == [(0.0, 0.0), (1.0, 0.5), (2.0, 1.5)]


def test_a_line_runs_from_the_lowest_tick_to_the_highest() -> None:
    """By hand: steps 0 and 10 stand at x 46 and 410; shares 0 and 1 at y 166 and 10."""
    svg = line_chart([Series("a <b>", [(0, 0.0), (10, 1.0)])], percent=True)
    assert 'points="46.0,166.0 410.0,10.0"' in svg
    assert "a &lt;b&gt;" in svg
    assert "<b>" not in svg


def test_bars_stand_on_each_other() -> None:
    """By hand: ticks 0 to 4 over 156 units, so a part of 1 is 39 high; the second begins where the first ends."""
    svg = stacked_bars([Series("a", [(1, 1.0)]), Series("b", [(1, 3.0)])])
    assert re.findall(r'y="([\d.]+)" width="26.0" height="([\d.]+)"', svg) == [("127.0", "39.0"), ("10.0", "117.0")]


def test_a_judged_run_shows_how_far_judge_and_env_disagree(tmp_path):
    write_lines(
        tmp_path / "metrics.jsonl", [{"step": n, "reward/mean": 0.5, "judge/disagreement": n / 10} for n in (1, 2)]
    )
    page = write_report(tmp_path).read_text()
    assert "Judge against env" in page
    assert "share of pairs ordered the other way; 0.5 is chance" in page
    write_lines(tmp_path / "metrics.jsonl", [{"step": n, "reward/mean": 0.5} for n in (1, 2)])
    assert "Judge against env" not in write_report(tmp_path).read_text()
