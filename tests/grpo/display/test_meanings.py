"""docs/metrics.md has every metric that a run writes, and no other."""

import json
import re

import pytest

from grpo.display.meanings import MEANINGS
from grpo.envs.message_env import MessageEnv
from grpo.episodes.marking import METRICS as MARKS
from grpo.types import Task
from tests import ROOT
from tests.support import metrics_page

WRITERS = ("training/batch", "training/trainer", "learner/update_metrics", "episodes/summary", "runs/diagnosis")


def test_the_page_is_as_the_table_makes_it():
    assert metrics_page.PAGE.read_text(encoding="utf-8") == metrics_page.page(), (
        "write it anew: python -m tests.support.metrics_page"
    )


def test_metrics_of_recorded_runs_are_in_the_table():
    runs = json.loads((ROOT / "tests/grpo/runs/recipe_metrics.json").read_text(encoding="utf-8"))
    logged = {name for run in runs.values() for name in run}
    assert {name for name in logged if not name.startswith("env/")} <= MEANINGS.keys()


def test_the_table_has_what_the_code_names_and_nothing_else():
    texts = [(ROOT / f"grpo/{name}.py").read_text(encoding="utf-8") for name in WRITERS]
    named = {name for text in texts for name in re.findall(r'"([a-z]+/[a-z0-9_]+)"', text)} - {
        "env/success",
        "env/valid_call_rate",
    }
    marked = {name.replace("answer_", "answer/") for name in MARKS}
    assert named | marked | {"step", "lr", "staleness"} == MEANINGS.keys()


@pytest.mark.parametrize(
    ("env_id", "meanings"),
    [("EmailSearch-v0", metrics_page.OF_MAIL), ("FrozenLake-v1", metrics_page.OF_PLAIN_ENVS)],
)
def test_the_metrics_of_an_env_are_on_the_page(env_id, meanings):
    shown = MessageEnv(env_id, {}).reset(Task(0)).metrics
    assert meanings.keys() - {"success"} <= shown.keys() <= meanings.keys()
