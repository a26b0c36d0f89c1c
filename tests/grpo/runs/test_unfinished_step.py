"""Groups that are kept for a step that a run did not finish: whole as they were, or named as damaged."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.errors import CheckpointError
from grpo.runs.unfinished_step import UnfinishedStep
from grpo.types import Group, StopReason, Task, Trajectory


def test_damaged_groups_of_an_unfinished_step_are_named(tmp_path):
    whole = Trajectory("e", Task(3), 1, 7).to_record()
    damages = ({"seed": "x"}, {"token_ids": [1]}, {"stop_reason": "?"}, {"metrics": 1.0})
    for line in ({"trajectories": []}, *({"trajectories": [{**whole, **damage}]} for damage in damages)):
        (tmp_path / "step-0000.jsonl").write_text(json.dumps(line))
        with pytest.raises(CheckpointError, match=r"step-0000\.jsonl is damaged .*remove it"):
            UnfinishedStep(tmp_path).groups(0)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1), st.text(), st.booleans(), st.none() | st.text())
def test_a_kept_group_comes_back_as_it_was(logprobs, text, truncated, scenario):
    trajectory = Trajectory("e", Task(3, scenario), 1, 7, seconds=logprobs[0])
    trajectory.append([1, 2])
    trajectory.append(list(range(len(logprobs))), logprobs)
    trajectory.messages = [{"role": "tool", "content": text + "\udc80", "ok": True, "n": None}]
    trajectory.metrics, trajectory.reward = {"success": logprobs[0]}, logprobs[-1]
    trajectory.turn_errors, trajectory.explanation = [text], text
    trajectory.stop_reason = StopReason.TRUNCATED if truncated else StopReason.TERMINATED
    group = Group(trajectory.task, [trajectory, replace(trajectory, sample_index=2)])
    with tempfile.TemporaryDirectory() as folder:
        UnfinishedStep(Path(folder)).add(7, group)
        assert UnfinishedStep(Path(folder)).groups(7) == {group.task: group}
