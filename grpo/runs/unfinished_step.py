"""The groups that an unfinished step has already, on disk as they complete: a killed run rolls none of them out again.

A line of ``partial/step-0007.jsonl`` is one group, rolled out by the policy of step 7 with every token and logprob, and
rewarded: what the judge said is in it. A group with a failed episode is not kept; what failed is tried again.
"""

from __future__ import annotations

from pathlib import Path

from grpo.errors import CheckpointError
from grpo.files import JsonlLog, read_jsonl
from grpo.types import Group, Task, Trajectory


class UnfinishedStep:
    """The rewarded groups of one step at a time; another step's are dropped."""

    def __init__(self, folder: Path | None = None):
        """Keep groups in ``folder``, or for as long as this object lives."""
        self._folder = folder
        self._step: int | None = None
        self._groups: dict[Task, Group] = {}

    def groups(self, step: int) -> dict[Task, Group]:
        """Those that ``step`` has already, by task; each was sampled by the policy of that step.

        Raises:
            CheckpointError: Its file is damaged.
        """
        if step != self._step:
            self._groups = self._read(step)
            self._step = step
        return dict(self._groups)

    def add(self, step: int, group: Group) -> None:
        """Keep a rewarded group of ``step``, whole."""
        self.groups(step)
        self._groups[group.task] = group
        if self._folder is not None:
            with JsonlLog(self._path(step)) as log:
                log.append({"trajectories": [t.to_record(logprobs=True) for t in group.trajectories]})

    def clear(self) -> None:
        """Forget all: the step is over."""
        self._step, self._groups = None, {}
        self._remove(except_step=None)

    def _read(self, step: int) -> dict[Task, Group]:
        self._remove(except_step=step)
        if self._folder is None:
            return {}
        path = self._path(step)
        try:
            groups = [[Trajectory.from_record(member) for member in line["trajectories"]] for line in read_jsonl(path)]
            return {members[0].task: Group(members[0].task, members) for members in groups}
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}); remove it, and its groups are sampled anew") from error

    def _remove(self, except_step: int | None) -> None:
        if self._folder is None:
            return
        for path in self._folder.glob("step-*.jsonl"):
            if except_step is None or path != self._path(except_step):
                path.unlink()

    def _path(self, step: int) -> Path:
        assert self._folder is not None
        return self._folder / f"step-{step:04d}.jsonl"
