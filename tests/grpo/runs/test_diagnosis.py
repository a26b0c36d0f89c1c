"""Each known way in which training goes nowhere is told, once, where it begins; runs of the recipe that learned are not
accused of any.
"""

import json
import re
from pathlib import Path

import pytest

from grpo.runs.diagnosis import diagnose

FALLS, FLAT, RISES = [0.6, 0.6, 0.6, 0.5, 0.3, 0.2, 0.2], [0.5] * 7, [0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.6]
SHARE = {"groups/zero_variance_share": [0.4, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0]}
WAYS = {
    "no spread, for all fail": (SHARE | {"env/success": FLAT}, 5, "no spread", "No group of the newest 3 steps .* a warm start"),
    "no spread, for all succeed": (
        {"groups/zero_variance_share": [0.4, 0.4, 0.5, 0.9, 1.0, 1.0, 1.0], "env/success": RISES},
        7,
        "no spread",
        "harder or other tasks",
    ),
    "no spread, by the judge": (SHARE | {"judge/score": FLAT}, 5, "no spread", "the judge gives all members"),
    "one action": ({"actions/top_share": [0.2, 0.5, 0.9, 0.9, 0.95, 1, 1]}, 5, "one action", "92% of all turns"),
    "tools": ({"tokens/calls_mean": [3, 3, 3, 2, 1.5, 1, 1], "env/success": FALLS}, 6, "turns die out", "1.5 .* 3.0"),
    "growth": ({"tokens/completion_mean": [90, 100, 110, 150, 180, 220, 300], "env/success": FLAT}, 7, "growing answers", "100 to 233"),
    "shrinking": ({"tokens/completion_mean": [90, 100, 110, 60, 40, 20, 10], "env/success": FLAT}, 6, "shrinking answers", "100 to 40"),
    "cut turns": ({"turns/cut_share": [0.1, 0.1, 0.1, 0, 0, 0, 0]}, 3, "cut turns", "10% of the turns .*max_turn_tokens"),
    "cut turns at once": ({"turns/cut_share": [0, 0.5, 0, 0, 0, 0, 0]}, 2, "cut turns", "50%"),
    "giving up": (
        {"episodes/idle_share": [0, 0, 0.1, 0.2, 0.3, 0.4, 0.5], "reward/idle_advantage": [0.1] * 7},
        6,
        "giving up pays",
        "30% of the episodes .* 0.10 more",
    ),
    "entropy": ({"loss/entropy": [0.2, 0.2, 0.2, 0.1, 0.02, 0.01, 0.01], "env/success": FALLS}, 7, "entropy collapse", "0.2 to 0.0133"),
    "gap": ({"gap/mean_abs": [0.004] * 3 + [0.01, 0.03, 0.05, 0.08]}, 7, "growing gap", "0.053 .* 0.004"),
    "judge": ({"judge/disagreement": [0.1, 0.2, 0.3, 0.5, 0.5, 0.5, 0.5]}, 5, "judge against env", "43%"),
    "exploited": (
        {"reward/mean": RISES, "reward/std": [0.5] * 7, "env/success": FALLS},
        6,
        "exploited reward",
        "risen by 0.23 while success fell by 27%",
    ),
    # a quickstart at cb076191, seed 0: it never came back
    "form": ({"env/valid_call_rate": [0.954, 0.782, 0.396, 0.4, 0.4, 0.4, 0.4]}, 3, "forgotten form", "40% of the calls .* was 95%"),
    "worse": (
        {"reward/mean": [0.534, 0.367, -0.429, -0.465, -0.442, -0.44, -0.406], "reward/std": [0.7] * 7},
        6,
        "getting worse",
        "from 0.16 to -0.45",
    ),
    "small rate": ({"policy/moved": [1e-6, 2e-6, 3e-6]}, 3, "rate too small", "by 2e-06 nats"),
    "large rate": ({"policy/moved": [4.2, 0.1, 0.1]}, 1, "rate too large", "by 4.2 nats"),
}  # fmt: skip


def steps_of(columns):
    count = max(map(len, columns.values()))
    rows = [{name: column[n] for name, column in columns.items() if column[n] is not None} for n in range(count)]
    return [{"step": n, **row} for n, row in enumerate(rows, start=1)]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_told_once_where_it_begins(way):
    columns, step, name, said = WAYS[way]
    (found,) = diagnose(steps_of({"reward/mean": FLAT[: len(next(iter(columns.values())))]} | columns))
    assert (found.name, found.step, found.metric in columns) == (name, step, True)
    assert re.search(said, found.text)


@pytest.mark.parametrize("run", ["0", "1", "2", "3", "4", "quickstart"])
def test_runs_of_the_recipe_that_learned_are_not_accused(run):
    runs = json.loads(Path(__file__).with_name("recipe_metrics.json").read_text())
    steps = steps_of(runs[run])
    assert len(steps) == (10 if run == "quickstart" else 32)
    assert diagnose(steps) == []


def test_what_gains_may_grow_shorten_or_be_sure_of_itself():
    columns = {"env/success": RISES, "loss/entropy": [0.2] * 3 + [0.001] * 4, "tokens/calls_mean": [3] * 3 + [1] * 4}
    assert diagnose(steps_of(columns | {"tokens/completion_mean": [50] * 3 + [300] * 4})) == []
    assert {one.name for one in diagnose(steps_of(columns | {"env/success": FLAT}))} == {
        "entropy collapse",
        "turns die out",
    }


def test_steps_without_metrics_say_nothing():
    assert diagnose([]) == []
    assert diagnose([{}] * 9) == []
