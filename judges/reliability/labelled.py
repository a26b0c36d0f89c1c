"""Labelled groups, from a JSONL file: each trajectory has a label that says how good it is.

    {"trajectories": [[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], ...],
     "labels": [1, 0, ...], "tools": [...]}

One group a line. Labels are numbers, higher is better; only their order within a group counts. ``tools`` is optional.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.jsonl import read_lines
from judges.scoring.prompt import build_prompts
from judges.scoring.types import Message

_KEYS = ("trajectories", "labels", "tools")


@dataclass(frozen=True, slots=True)
class LabelledGroup:
    """Trajectories with the same goal and one label each.

    Raises:
        JudgeInputError: There are not as many labels as trajectories, or a label is no finite number.
    """

    trajectories: Sequence[Sequence[Message]]
    labels: Sequence[float]
    tools: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        if len(self.trajectories) != len(self.labels) or len(self.labels) == 0:
            raise JudgeInputError(
                f"a group needs one label per trajectory, got {len(self.trajectories)} trajectories and "
                f"{len(self.labels)} labels"
            )
        for label in self.labels:
            if not isinstance(label, Real) or not abs(label) <= sys.float_info.max:
                raise JudgeInputError(f"a label must be a finite number, got {label!r:.80}")


def read_labelled(path: str | os.PathLike[str]) -> list[LabelledGroup]:
    """The groups of a file, in its order; empty lines are passed over, damaged ones named and passed over.

    Raises:
        JudgeInputError: The file cannot be read, or holds no group.
    """
    groups = list(read_lines(path, _group))
    if not groups:
        raise JudgeInputError(
            f"{os.fspath(path)} holds no group; write one JSON object with trajectories and labels a line"
        )
    return groups


def _group(value: Any) -> LabelledGroup:
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in _KEYS[:2]):
        raise JudgeInputError('must be an object with the lists "trajectories" and "labels"')
    for key in value.keys() - set(_KEYS):
        near = get_close_matches(key, _KEYS, n=1)
        raise JudgeInputError(f"has an unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    group = LabelledGroup(**value)
    build_prompts(group.trajectories, tools=group.tools)
    return group
