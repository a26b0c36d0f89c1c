"""What was captured of an agent of the user's: counts over its episodes, and the calls of one episode as a tree."""

from collections import Counter
from collections.abc import Iterator, Sequence

from grpo.display.metrics import counted
from grpo.ending import Ending
from grpo.types import Episode, ModelCall, common_prefix, stands_in

HONOURED = ("max_tokens", "stream_options")
"""What a request asks for beyond messages and tools, and gets; as it gets whatever it leaves to the server (auto)."""


def captured(episodes: Sequence[Episode]) -> list[str]:
    """What the agent asked, in lines, and the calls of the episode with most; nothing where the policy played alone."""
    calls = [call for episode in episodes for call in episode.calls if call.is_of_agent]
    if not calls:
        return []
    out = Counter(call.left_out for call in calls if call.left_out)
    rows = len(calls) - out.total() - sum(call.follows is not None for call in calls if not call.left_out)
    why = "".join(f", {count} {reason}" for reason, count in sorted(out.items()))
    late = sum(episode.late_calls for episode in episodes)
    made = f"{counted(len(calls), 'call')} in {counted(len(episodes), 'episode')}"
    lines = [
        f"the agent made {made}: {rows} begin a row, the others carry one on; not learned from: {out.total()}{why}, "
        f"and {late} after the end"
    ]
    if asked := Counter(name for call in calls for name in _neutralised(call)):
        names = ", ".join(f"{name} ({count})" for name, count in sorted(asked.items()))
        lines.append(f"asked for and not honoured, for what is sampled must be what is trained: {names}")
    if lost := sum(1 for episode in episodes for _ in _unread(episode)):
        lines.append(f"{counted(lost, 'result')} of tools never came to the model as the env gave them")
    return [*lines, *drawing(max(episodes, key=lambda episode: len(episode.calls)))]


def context_full(episodes: Sequence[Episode], max_tokens: int) -> list[str]:
    """How many episodes were longer than ``rollout.max_tokens``, and what helps; nothing where none was."""
    if not (cut := sum(episode.ending is Ending.CONTEXT_FULL for episode in episodes)):
        return []
    return [
        f"{cut} of {len(episodes)} episodes were cut, their context full (rollout.max_tokens = {max_tokens}); such are "
        "not learned from: raise it, or lower rollout.max_turn_tokens or the env's limit of turns"
    ]


def _unread(episode: Episode) -> Iterator[str]:
    """What the env said to a turn, but for the last one, and no call holds."""
    turns = [place for place, message in enumerate(episode.messages) if message["role"] == "assistant"]
    for place in turns[:-1]:
        if not stands_in(said := str(episode.messages[place + 1].get("content") or ""), episode.calls):
            yield said


def _neutralised(call: ModelCall) -> list[str]:
    return [name for name, value in call.asked.items() if name not in HONOURED and value != "auto"]


def drawing(episode: Episode) -> Iterator[str]:
    """An episode's calls, a line each: what it follows, its tokens, and what becomes of it."""
    yield f"  {episode.task.key}, {episode.ending}, reward {episode.reward:.2f}" + (
        f": {episode.error}" if episode.error else ""
    )
    depths: dict[int, int] = {}
    for number, call in enumerate(episode.calls):
        depth = depths[number] = 0 if call.follows is None else depths[call.follows] + 1
        fate = call.left_out or call.error or "learned"
        asked = ", ".join(f"{name} is not honoured" for name in _neutralised(call))
        why = f"; a root from token {_shared(episode, number) + 1} on, for {call.differs}" if call.differs else ""
        tokens = f"{len(call.prompt_ids)} new, {len(call.sampled_ids)} sampled"
        place = "root" if call.follows is None else f"on {call.follows + 1}"
        yield f"  {'  ' * depth}{number + 1:3} {place}: {tokens}: {fate}{why}{f'; {asked}' if asked else ''}"
    if episode.late_calls:
        yield f"      {episode.late_calls} after the end, answered with what ends an agent"


def _shared(episode: Episode, number: int) -> int:
    """How many ids a root's prompt shares with the head of the nearest call before it."""
    heads = map(episode.ids_through, range(number))
    return max((common_prefix(head, episode.calls[number].prompt_ids) for head in heads), default=0)
