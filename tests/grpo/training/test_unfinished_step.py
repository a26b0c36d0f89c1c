"""Groups that are kept for a step that a run did not finish: whole as they were, or named as damaged."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.ending import Ending
from grpo.episodes.record import line_of
from grpo.errors import CheckpointError
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import Episode, Group, Task
from tests.support.episodes import say


def test_damaged_groups_of_an_unfinished_step_are_named(tmp_path):
    whole = json.loads(line_of(Episode("e", Task(3), 1)))
    no_number = {"sampled_ids": [1, 2], "logprobs": [-0.5, None]}  # a NaN that was kept
    damages = ({"env_seed": "x"}, {"calls": [{"ids": [1]}]}, {"calls": [no_number]}, {"ending": "?"}, {"metrics": 1.0})
    for line in ({"episodes": []}, *({"episodes": [{**whole, **damage}]} for damage in damages)):
        (tmp_path / "step-0000.jsonl").write_text(json.dumps(line))
        with pytest.raises(CheckpointError, match=r"step-0000\.jsonl is damaged .*remove it"):
            UnfinishedStep(tmp_path).groups(0)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1), st.text(), st.booleans(), st.none() | st.text())
def test_a_kept_group_comes_back_as_it_was(logprobs, text, truncated, scenario):
    episode = Episode("e", Task(3, scenario), 1, 7, seconds=logprobs[0])
    say(episode, [1, 2], list(range(len(logprobs))), logprobs, error=text)
    episode.messages = [{"role": "tool", "content": text + "\udc80", "ok": True, "n": None}]
    episode.metrics, episode.reward = {"success": logprobs[0]}, logprobs[-1]
    episode.explanation = text
    episode.ending = Ending.MAX_TURNS if truncated else Ending.ANSWERED
    group = Group(episode.task, [episode, replace(episode, sample_index=2)])
    with tempfile.TemporaryDirectory() as folder:
        UnfinishedStep(Path(folder)).add(7, group)
        assert UnfinishedStep(Path(folder)).groups(7) == {group.task: group}
