"""Rollouts of any trainer, held against a chat template: are the ids what was said, and are mask and logprobs theirs?

Context is compared by ids. A sampled turn is compared by its text, because sampled ids need not be the canonical ones
of their text. It reaches to the first token that ends a turn: that token may be sampled, or the template's where the
turn was cut, so its mask is taken as it is. What stands behind the last turn may be cut anywhere.

    grpo-doctor --rollouts rollouts.jsonl --model MODEL
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from grpo.agents.captured import said_of
from grpo.chat import Chat, chat_for, load_tokenizer
from grpo.chat.template import OF_NO_WEIGHT
from grpo.chat.tree import canonical, rendered
from grpo.config import TrainConfig
from grpo.errors import DataError, ModelError, describe
from grpo.machine.models import resolve_model
from grpo.types import Message, common_prefix
from judges.common.files import each_record

MAX_GAP = 1.0
"""Nats: bf16 differs from float32 by 0.04 a token, and by 0.27 at most (1,272 tokens of SmolLM2-135M at temperature 1);
the log-probability of another token differs by several."""
_ROUNDING = 1e-4
_SHOWN, _AGREE, _LONGEST = 24, 80, 400
"""Characters: shown of a text; that agree behind what is doubled or missing, to be called so; most that are so."""

LogprobsOf = Callable[[Sequence[int]], Sequence[float]]
"""Gives the log-probability (natural log) of each of some ids but the first, after those before it."""


class Fault(StrEnum):
    """What is wrong with a row."""

    DRIFT = "drift"
    """Ids are not what the template writes for the messages, or a sampled turn is not what the transcript says."""
    DOUBLED = "doubled"
    """Tokens stand there twice."""
    MISSING = "missing"
    """Tokens are not there."""
    MASK = "mask"
    """It covers a token that was not sampled, such as one of an observation, or leaves out one that was."""
    LOGPROB = "logprob"
    """It is positive, or not finite, or not what the model computes."""
    LENGTH = "length"
    """There is not one mask for each id, or not one log-probability for each sampled one."""


class Rollout(BaseModel):
    """A row that is learned from, and what it stands for. Other keys of a line, such as ``reward``, are not read.

    Attributes:
        ids: Token ids of prompt and turns, without padding.
        mask: Of each id 1 (or true) if it was sampled, else 0.
        logprobs: The sampler's (natural log, temperature 1) of each sampled id alone; None where they are not known.
        messages: The transcript, OpenAI-style. A turn's ``content`` is its text as it was sampled. With ``tool_calls``
            or ``reasoning_content`` a parser has read it, and its thoughts and the blanks around it are not compared.
        tools: OpenAI function schemas.
        prompt_messages: How many messages are context whatever their role; by default every turn was sampled.
    """

    ids: list[int]
    mask: list[bool]
    logprobs: list[float] | None = None
    messages: list[Message]
    tools: list[dict[str, Any]] = []
    prompt_messages: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of ``row`` (from 1) at the id ``position`` (from 0; None of a length), and the text before it."""

    row: int
    fault: Fault
    position: int | None
    expected: str
    got: str
    after: str = ""

    def __str__(self) -> str:
        """One line."""
        place = "" if self.position is None else f" at id {self.position}, after {self.after!r}"
        return f"row {self.row}: {self.fault}{place}: expected {self.expected!r}, got {self.got!r}"


def check_row(
    row: Rollout, chat: Chat, number: int = 1, logprobs_of: LogprobsOf | None = None, max_gap: float = MAX_GAP
) -> list[Finding]:
    """The faults of a row: the first wrong id, wrong masks before it, the first wrong log-probability.

    Args:
        row: What is checked.
        chat: Tokenizer and template. With history ``append`` a row may go on where the template rewrites a turn.
        number: Of the row.
        logprobs_of: The model that has sampled; None leaves the comparison out.
        max_gap: Largest difference of a token's log-probability, in nats.

    Raises:
        ModelError: The template refuses the messages.
    """
    walk = _Walk(row, chat, number)
    if walk.found and walk.earlier is not None:
        walk = max(walk, _Walk(row, chat, number, walk.earlier), key=lambda walk: walk.right)
    found, sampled = walk.found, [at for at, mask in enumerate(row.mask) if mask]
    logprobs = [0.0] * len(sampled) if row.logprobs is None else row.logprobs
    for what, due, has in (("masks", row.ids, row.mask), ("logprobs", sampled, logprobs)):
        if len(due) != len(has):
            return [*found, Finding(number, Fault.LENGTH, None, f"{len(due)} {what}", str(len(has)))]
    computed = [math.nan, *logprobs_of(row.ids)] if logprobs_of and row.logprobs else []
    for at, value in zip(sampled, logprobs, strict=True):
        is_off = computed and at and not abs(value - computed[at]) <= max_gap
        if is_off or not -math.inf < value <= _ROUNDING:
            expected = f"{computed[at]:.4f}" if computed else "at most 0"
            return [*found, walk.finding(Fault.LOGPROB, at, expected, f"{value:.4f}")]
    return found


class _Walk:
    """Goes through the ids of a row by pieces: ids of context, and turns, which are numbers of messages.

    Earlier turns stand in a prompt as the template writes them at once, or as they were sampled: then ``begin`` is the
    first of them.
    """

    def __init__(self, row: Rollout, chat: Chat, number: int, begin: int | None = None):
        self.row, self.chat, self.number = row, chat, number
        self.messages = messages = rendered(chat, row.messages, row.tools)
        turns = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        self.first = next((at for at in turns if at >= row.prompt_messages), len(messages))
        self.earlier = turns[0] if turns and turns[0] < self.first else None
        begin = self.first if begin is None else begin
        self.pieces: list[list[int] | int] = [chat.prompt_ids(messages[:begin], row.tools)]
        for at, after in itertools.pairwise([*(at for at in turns if at >= begin), len(messages)]):
            self.pieces.append(at)
            if after < len(messages) or after > at + 1:
                self.pieces.append(chat.delta_ids(messages[: at + 1], messages[at + 1 : after], row.tools))
        self.right = len(row.ids)
        self.found = list(self._faults())

    def _faults(self) -> Iterator[Finding]:
        """What is wrong with ids and mask; ``right`` counts the ids before it."""
        chat, ids, end = self.chat, self.row.ids, 0
        last_turn = max((place for place, piece in enumerate(self.pieces) if isinstance(piece, int)), default=0)
        for place, piece in enumerate(self.pieces):
            at, is_sampled = end, isinstance(piece, int) and piece >= self.first
            if isinstance(piece, int):
                if place == last_turn > 1 and chat.history == "fork":
                    yield from self._rewritten(at, piece, place)
                stop = next((i for i in range(at, len(ids)) if ids[i] in chat.stop_token_ids), len(ids))
                text, said = chat.decode(ids[at:stop]), self.messages[piece]["content"]
                if text != said and not _reads(self.row.messages[piece], text, self.row.tools):
                    texts = [chat.decode(ids[at:end]) for end in range(at, stop + 1)]
                    right = max(count for count, text in enumerate(texts) if said.startswith(text))
                    yield self._wrong(at + right, said[len(texts[right]) :] + chat.end, place)
                    return
                self.messages[piece]["content"] = text
                end = min(stop + 1, len(ids))
            else:
                wanted = chat.close_ids(ids[:at]) + piece if place else piece
                stop = end = min(at + len(wanted), len(ids))
                if (same := common_prefix(wanted, ids[at:end])) < (end - at if place > last_turn else len(wanted)):
                    yield self._wrong(at + same, self._text(wanted[same:]), place)
                    return
            masks = enumerate(self.row.mask[at:stop], start=at)
            if (wrong := next((i for i, mask in masks if mask != is_sampled), None)) is not None:
                yield self.finding(Fault.MASK, wrong, str(int(is_sampled)), str(int(not is_sampled)))
        if end < len(ids) and ids[end:] != chat.encode(f"{chat.end}\n")[1:]:  # what many templates end a message with
            yield self._wrong(end, "", len(self.pieces))

    def _rewritten(self, at: int, turn: int, place: int) -> Iterator[Finding]:
        """What stands before a turn is what the template writes there at once, but for what has no weight."""
        opening = self.chat.prompt_ids(self.messages[:turn], self.row.tools)
        whole, shown = self._text(opening), "".join(map(self._text, self.pieces[:place]))
        whole, shown = OF_NO_WEIGHT.sub("", whole), OF_NO_WEIGHT.sub("", shown)
        if whole != shown:
            same = common_prefix([*map(ord, whole)], [*map(ord, shown)])
            yield self.finding(Fault.DRIFT, at, whole[same:], shown[same:])

    def _text(self, piece: Sequence[int] | int) -> str:
        if isinstance(piece, int):
            return self.messages[piece]["content"] + self.chat.end
        return self.chat.tokenizer.decode(piece, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _wrong(self, at: int, expected: str, place: int) -> Finding:
        """The finding at an id where a text is expected, and then what comes behind a piece."""
        self.right, others = at, self.chat.stop_token_ids[1:]  # turns may end otherwise than the template ends them
        expected = (expected + "".join(map(self._text, self.pieces[place + 1 :])))[: 2 * _LONGEST]
        got = self._text([i for i in self.row.ids[at : at + _LONGEST] if i not in others])
        before = self._text(self.row.ids[max(0, at - _LONGEST) : at])
        return self.finding(_kind(expected, got, before), at, expected, got)

    def finding(self, fault: Fault, at: int, expected: str, got: str) -> Finding:
        """A fault at an id."""
        after = self._text(self.row.ids[max(0, at - _SHOWN) : at])[-_SHOWN:]
        return Finding(self.number, fault, at, expected[:_SHOWN], got[:_SHOWN], after)


def _reads(message: Message, text: str, tools: Sequence[dict[str, Any]]) -> bool:
    """Whether a message is what a parser makes of a turn's text."""
    said = said_of(text, [tool["function"]["name"] for tool in tools], "").message
    return not {"tool_calls", "reasoning_content"}.isdisjoint(message) and canonical(said) == canonical(message)


def _kind(expected: str, got: str, before: str) -> Fault:
    """What explains a text with the least: that some is not there, that some is there again, or is something else."""

    def goes_on(extra: int, lacking: int) -> bool:
        return expected.startswith(got[extra : extra + _AGREE], lacking)

    few = range(1, 13)  # characters of one token
    other = min((a + b for a in few for b in few if len(got) > a + 8 and goes_on(a, b)), default=math.inf)
    missing = next((n for n in range(len(expected)) if goes_on(0, n)), math.inf)
    doubled = next((n for n in range(1, len(got) + 1) if before.endswith(got[:n]) and goes_on(n, 0)), math.inf)
    least = min(other, missing, doubled)
    if least in (0, other):
        return Fault.DRIFT if got else Fault.MISSING
    return Fault.MISSING if least == missing else Fault.DOUBLED


def check_file(path: Path, config: TrainConfig, max_gap: float, *, computes: bool) -> str:
    """How many rows a file has, if none has a fault; ``computes`` says whether to compare log-probabilities.

    Raises:
        DataError: A row has a fault, a line is no row, or there is none.
        ModelError: The model cannot be used.
    """
    model, settings = resolve_model(config.model).path, config.rollout
    tokenizer = load_tokenizer(model)
    try:
        chat = chat_for(tokenizer, settings.history, settings.chat_template_kwargs)
    except ModelError:  # no run can use it, but other trainers may
        own = tokenizer.chat_template or ""
        chat = Chat(tokenizer, own, settings.history, settings.chat_template_kwargs)
    logprobs_of, found, count = _logprobs_of(model, config.device) if computes else None, list[Finding](), 0
    for count, (_, record) in enumerate(each_record(path), start=1):
        try:
            found += check_row(Rollout.model_validate(record), chat, count, logprobs_of, max_gap)
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # messages may hold anything
            raise DataError(f"{path} line {count} cannot be checked: {describe(error)}") from error
    if not count:
        raise DataError(f"{path} has no row")
    if found:
        head = f"{len({finding.row for finding in found})} of {count} rows have faults, {len(found)} in all"
        raise DataError("\n  ".join([head, *map(str, found[:_SHOWN])]))
    return f"{count} rows without a fault"


def _logprobs_of(model: Path, device: str) -> LogprobsOf:
    from transformers import AutoModelForCausalLM

    from grpo.learner.load_check import plain_logprobs

    loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    loaded.to(device).eval()
    return lambda ids: plain_logprobs(loaded, ids).tolist()
