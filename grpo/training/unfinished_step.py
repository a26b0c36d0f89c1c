"""The groups that no finished step has learned from, on disk as they complete: a killed run plays none of them again.

A line of ``partial/step-0007.jsonl`` is one group, rolled out by the policy of step 7 with every token and logprob, and
rewarded: what the judge said is in it. A group with a failed episode is not kept; what failed is tried again.
"""

import re
from pathlib import Path

from grpo.episodes.record import episode_of, line_of
from grpo.errors import CheckpointError
from grpo.types import Group, Task
from judges.common.files import JsonlLog, read_jsonl


class UnfinishedStep:
    """The rewarded groups that a step may learn from: its own policy's, and those of up to ``max_staleness`` before."""

    def __init__(self, folder: Path, max_staleness: int = 0):
        """Keep groups in ``folder``."""
        self._folder = folder
        self._max_staleness = max_staleness
        self._groups: dict[int, dict[Task, Group]] = {}  # by the step whose policy played them

    def groups(self, step: int) -> dict[Task, Group]:
        """Those that ``step`` may learn from, by task.

        Raises:
            CheckpointError: A file is damaged.
        """
        versions = self._versions(step)
        for version in versions:
            if version not in self._groups:
                self._groups[version] = self._read(version)
        return {task: group for version in versions for task, group in self._groups[version].items()}

    def add(self, version: int, group: Group) -> None:
        """Keep a rewarded group that the policy of step ``version`` played, whole."""
        if version not in self._groups:
            self._groups[version] = self._read(version)
        self._groups[version][group.task] = group
        with JsonlLog(self._path(version)) as log:
            members = b",".join(line_of(episode, logprobs=True).rstrip() for episode in group.episodes)
            log.write(b'{"episodes":[%b]}\n' % members)

    def finish(self, step: int) -> None:
        """Drop what ``step`` may not learn from: its checkpoint is whole, and a run that is killed goes on from there.

        A group of a later policy is of one that was not kept.
        """
        self._keep(self._versions(step))

    def clear(self) -> None:
        """Forget all."""
        self._keep(range(0))

    def _versions(self, step: int) -> range:
        return range(max(0, step - self._max_staleness), step + 1)

    def _keep(self, versions: range) -> None:
        for version in [version for version in list(self._groups) if version not in versions]:
            del self._groups[version]
        for path in self._folder.glob("step-*.jsonl"):
            named = re.fullmatch(r"step-(\d+)\.jsonl", path.name)
            if named is None or int(named[1]) not in versions:
                path.unlink()

    def _read(self, version: int) -> dict[Task, Group]:
        path = self._path(version)
        try:
            groups = [[episode_of(member) for member in line["episodes"]] for line in read_jsonl(path)]
            return {members[0].task: Group(members[0].task, members) for members in groups}
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}); remove it, and its groups are sampled anew") from error

    def _path(self, version: int) -> Path:
        return self._folder / f"step-{version:04d}.jsonl"
