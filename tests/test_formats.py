"""docs/formats.md says what is in the files: those that are read are read as shown, those that are written have these
keys and no others.
"""

from collections import Counter
from dataclasses import fields

import pytest

from email_env.scenarios.scenario import Scenario
from grpo.agents.scripted import FileAgent
from grpo.doctor.rollouts import Rollout
from grpo.envs.tasks import read_tasks
from grpo.training.logs import read_log
from grpo.types import Answer, ModelCall
from judges.common.files import read_json, read_jsonl
from judges.reliability.groups import read_labelled
from tests.support import formats_page as page
from tests.support.evaluations import evaluated


def written(folder, text):
    path = folder / "file.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_page_is_as_the_code_makes_it():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "write it anew: python -m tests.support.formats_page"


def test_the_examples_are_read_as_shown(tmp_path):
    tasks = read_tasks(written(tmp_path, page.TASKS))
    assert list(tasks) == ["q1", "2"]
    assert [task["answers"] for task in tasks.values()] == [["T-41115", "41115"], ["8"]]
    left_out = Counter()
    episodes = read_log(written(tmp_path, page.LOG), left_out)
    assert [episode.messages[-1]["content"] for episode in episodes] == ["4", "6", "8"]
    assert [episode.reward for episode in episodes] == pytest.approx([1.0, float("nan"), 0.5], nan_ok=True)
    assert not left_out
    answers = FileAgent(written(tmp_path, page.ANSWERS), ["test-01-007", "test-01-008"])._answers
    assert answers == {("test-01-007", None): Answer("PO-5746", ("m3007",)), ("test-01-008", 0): None}
    (group,) = read_labelled(written(tmp_path, page.LABELLED))
    assert (len(group.trajectories), group.labels) == (2, [1, 0])
    assert sum(Rollout.model_validate_json(page.ROLLOUTS).mask) == 2


def test_every_key_of_what_is_read_is_on_the_page():
    assert set(page.described(Scenario)) == {field.name for field in fields(Scenario)}
    assert page.described(Rollout).keys() == Rollout.model_fields.keys()
    assert set(page.described(ModelCall)) == {field.name for field in fields(ModelCall)}


def test_an_evaluation_writes_these_keys(tmp_path):
    evaluated(tmp_path / "e", "--agent", "random", "--limit", "2", env="FrozenLake-v1")
    for row in read_jsonl(tmp_path / "e" / "results.jsonl"):
        assert row.keys() == page.of_episode().keys()
    assert read_json(tmp_path / "e" / "summary.json").keys() == page.SUMMARY.keys() | page.OF_EVALUATION.keys()
