"""Transcripts for the page: which questions to look at first, and one episode as blocks to read.

Models and mails have written all that text. It stays plain text, and the page shows it as nothing else.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grpo.chat.transcript import text_of
from grpo.display.metrics import counted, short_number
from grpo.ending import Ending
from grpo.types import Episode, Message
from judges.common.tool_calls import Fault, ParsedTurn, parse_turn

SHOWN_PAIRS = 8
"""Questions that a page shows first, as they were answered before and after."""

_TAGGED = re.compile(r"<tool_call>.*?(?:</tool_call>|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same question before and after."""

    before: Episode
    after: Episode

    @property
    def change(self) -> float:
        """Of the reward."""
        return self.after.reward - self.before.reward


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a transcript.

    Attributes:
        kind: ``text``, ``call``, ``broken`` (a call that cannot be read), ``observation``, or ``model`` (of
            ``model_blocks_of``).
        title: Name of the tool, or the first line of what is folded.
        body: Arguments, or the whole text.
        turn: Number of the assistant's turn it is part of, from 0; -1 for what is folded.
    """

    kind: str
    title: str
    body: str
    turn: int = -1


def choose_pairs(before: Sequence[Episode], after: Sequence[Episode]) -> list[Pair]:
    """``SHOWN_PAIRS`` questions: half whose reward rose, half whose reward fell, or more of one where others lack.

    The greatest change is first in each half, and stands for its question where that was answered several times. Failed
    episodes are left out.
    """
    earlier = {episode.key: episode for episode in before if episode.ending.counted}
    pairs = [Pair(earlier[e.key], e) for e in after if e.ending.counted and e.key in earlier]
    pairs.sort(key=lambda pair: abs(pair.change))
    ranked = sorted({pair.after.task.key: pair for pair in pairs}.values(), key=lambda pair: -abs(pair.change))
    rose, fell = [pair for pair in ranked if pair.change > 0], [pair for pair in ranked if pair.change < 0]
    room = min(len(rose), max(SHOWN_PAIRS - len(fell), SHOWN_PAIRS // 2))
    return rose[:room] + fell[: SHOWN_PAIRS - room]


def blocks_of(episode: Episode) -> list[Block]:
    """The turns of an episode, from the policy's first on."""
    blocks: list[Block] = []
    turn = -1
    for message in episode.messages:
        if message["role"] == "assistant":
            turn += 1
            blocks += [replace(block, turn=turn) for block in _assistant_blocks(message)]
        elif turn >= 0:
            blocks.append(_folded("observation", content_of(message)))
    return blocks + model_blocks_of(episode)


def model_blocks_of(episode: Episode) -> list[Block]:
    """What an agent and its model said to each other, a block for each call.

    An agent in a plain tool loop says to the env what its model says. The transcript holds that already: no blocks.
    """
    calls = [call for call in episode.calls if not call.sampled_ids]
    said = "\n".join(text_of(message) for message in episode.messages)
    replies = [content_of(call.reply) for call in calls if isinstance(call.reply, dict)]
    if all(reply in said for reply in replies):
        return []
    blocks: list[Block] = []
    for number, call in enumerate(calls, start=1):
        new = [message for message in (*call.messages, call.reply) if isinstance(message, dict)]
        lines = [f"[{message.get('role', '')}] {text_of(message)}" for message in new]
        lines += [f"[error] {call.error}"] if call.error else []
        tokens = f"{call.prompt_tokens:,} + {call.completion_tokens:,} tokens"
        title = f"model call {number}: {tokens}, {call.seconds:.2f} s"
        blocks.append(Block("model", title, "\n".join(lines)))
    return blocks


def errors_of(episode: Episode) -> list[str]:
    """What went wrong, by kind: why the episode ended where it did not end itself, and codes of invalid calls."""
    kinds = [] if episode.ending is Ending.ANSWERED else [episode.ending.value]
    return kinds + sorted({code for code in episode.turn_errors if code})


def chips_of(episode: Episode) -> list[tuple[str, str]]:
    """Reward and metrics in short, each with its tone: good, bad or plain."""
    metrics, ending = episode.metrics, episode.ending
    chips = [(f"reward {short_number(episode.reward)}", "plain")] if ending.counted else []
    for name, label in (("success", "success"), ("found", "found by search"), ("read", "read")):
        if name in metrics:
            chips.append((label, "good" if metrics[name] else "bad"))
    if metrics.get("dont_know"):
        chips.append(("“I don't know”", "plain"))
    if metrics.get("invalid_calls"):
        chips.append((counted(int(metrics["invalid_calls"]), "invalid call"), "bad"))
    chips.append((counted(episode.num_turns, "turn"), "plain"))
    if episode.num_sampled_tokens:
        chips.append((counted(episode.num_sampled_tokens, "token"), "plain"))
    if ending is not Ending.ANSWERED:
        tone = "plain" if ending is Ending.MAX_TURNS else "bad"  # it may be the best end
        chips.append((ending.replace("_", " "), tone))
    if episode.implicit:
        chips.append(("answer in prose", "plain"))
    if episode.cost is not None:
        chips.append((f"${episode.cost:.4f}", "plain"))
    return chips


def explanation_of(episode: Episode) -> str:
    """What judges said: RULER of the episode, an answer judge of its answer, and of one that a rule took for right."""
    said = [episode.explanation] if episode.explanation else []
    if verdict := episode.verdict:
        said.append(f"{'right' if verdict['accept'] else 'wrong'}, by {verdict['decided_by']}. {verdict['reasoning']}")
    if audit := episode.audit:
        agrees = "agrees with" if audit["accept"] else "contradicts"
        said.append(f"Audit: the judge {agrees} the rule, which took it for right. {audit['reasoning']}")
    return "\n".join(said)


def difficulty_of(episode: Episode) -> str:
    """The name of the env's ``difficulty_*`` flag that is set, or nothing."""
    for name, value in episode.metrics.items():
        if name.startswith("difficulty_") and value:
            return name.removeprefix("difficulty_")
    return ""


def _folded(kind: str, text: str) -> Block:
    lines = text.strip().splitlines() or [""]
    title = lines[0] if len(lines) == 1 else f"{lines[0]}  (+{len(lines) - 1} lines)"
    return Block(kind, title, text)


def content_of(message: Message) -> str:
    """Its text; what has parts, as JSON."""
    content = message.get("content")
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)


def turn_of(message: Message) -> tuple[str, ParsedTurn]:
    """What a turn of the assistant says beside its calls, and what it is."""
    content = content_of(message)
    turn = parse_turn(json.dumps(message) if message.get("tool_calls") else content)
    said = _TAGGED.sub("", content).strip()
    if turn.items and said == content.strip() and said.startswith(("{", "[")):  # a call without tags
        said = ""
    return said, turn


def _assistant_blocks(message: Message) -> list[Block]:
    """What a turn says, then what it calls."""
    said, turn = turn_of(message)
    blocks = [Block("text", "", said)] if said else []
    for item in turn.items:
        if isinstance(item, Fault):
            blocks.append(Block("broken", "a tool call that cannot be read", item.message))
            continue
        listed = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in item.arguments.items())
        blocks.append(Block("call", item.name, listed))
    return blocks or [Block("text", "", "(an empty turn)")]
