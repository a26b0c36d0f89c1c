"""Does a chat format fit a model's template? Its name and its words prove nothing, so a probe is rendered and read.

Templates that speak of tools may show none (Phi-4-mini reads them from a message), templates with ``<|im_end|>`` may be
no ChatML (Phi-4), and models may write calls that are not read (gpt-oss, Ministral 3). Each would be trained blind.
"""

import json
from pathlib import Path

from grpo.chat.template import OF_NO_WEIGHT, Chat
from grpo.errors import ModelError
from grpo.types import Message
from judges.common.tool_calls import parse_turn, without_thought

USABLE = "use a model whose calls are read: Qwen2.5, Qwen3, Qwen3.5, LFM2, Llama 3.1 or 3.2, SmolLM2 or SmolLM3"
"""What an error about a model says to do."""

_NAME = "probe_of_the_tools"
_ARGUMENTS = {"a": 1}
PROBE_CALL: Message = {
    "role": "assistant",
    "tool_calls": [{"id": "probe0001", "function": {"name": _NAME, "arguments": _ARGUMENTS}}],
}
"""A turn with one call. Its id has the nine characters that Mistral's templates ask for."""

PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "description": "A number."}},
            "required": ["a"],
        },
    },
}
"""The tool that it calls."""
_QUESTION: Message = {"role": "user", "content": "Why?"}
_OPENING: list[Message] = [{"role": "system", "content": "Be brief."}, _QUESTION]
_CONVERSATION: list[Message] = [*_OPENING, {"role": "assistant", "content": "Because."}, _QUESTION]


def shows_tools(chat: Chat) -> bool:
    """Whether the template writes the name of a tool that it is given."""
    return _NAME in chat.render([_QUESTION], [PROBE_TOOL])


def require_chatml(chat: Chat, own: str) -> None:
    """The model's own template writes a conversation without tools as ``hermes.jinja`` does.

    Raises:
        ModelError: It does not.
    """
    text = chat.render(_CONVERSATION, [], template=own)
    if text != chat.render(_CONVERSATION, []):
        raise ModelError(
            "the model's chat template shows no tools, and plain ChatML cannot take its place: the template writes a "
            f"conversation otherwise, as {text[:160]!r}; {USABLE}"
        )


def require_whole_round(chat: Chat) -> None:
    """System with tools, question, call, reply, answer, question: appended turn by turn it is what is written at once.

    Raises:
        ModelError: The template refuses a message, leaves one out or writes it otherwise later, its call is not read
            back as that call, or the model has no embedding of an id.
    """
    said = _OPENING
    try:
        ids, called = chat.prompt_ids(said, [PROBE_TOOL]), chat.turn_text(PROBE_CALL, [PROBE_TOOL])
        if [(call.name, call.arguments) for call in parse_turn(called).calls] != [(_NAME, _ARGUMENTS)]:
            raise ModelError(f"a call as {called[:160]!r} cannot be read")
        for turn, new in (
            (called, {"role": "tool", "content": "reply_of_the_probe"}),
            ("Because.", {"role": "user", "content": "Is that all?"}),
        ):
            said = [*said, {"role": "assistant", "content": turn}]
            ids, _ = chat.next_prompt([*ids, *chat.encode(turn), chat.stop_token_ids[0]], said, [new], [PROBE_TOOL])
            said = [*said, new]
    except ModelError as error:
        raise ModelError(f"the model cannot be prompted with tools: {error}; {USABLE}") from error
    text, whole = (OF_NO_WEIGHT.sub("", text) for text in (chat.tokenizer.decode(ids), chat.render(said, [PROBE_TOOL])))
    shown = [(m["role"], without_thought(m["content"]) if m["role"] == "assistant" else m["content"]) for m in said]
    hidden = [role for role, content in shown if OF_NO_WEIGHT.sub("", content) not in text]
    if hidden or (text != whole and chat.history == "fork"):
        what = f"leaves out what {', '.join(hidden)} said" if hidden else "writes turns otherwise later"
        raise ModelError(f"the model's chat template {what}: {text[-160:]!r}; {USABLE}")
    config = Path(chat.tokenizer.name_or_path) / "config.json"
    rows = json.loads(config.read_text(encoding="utf-8")).get("vocab_size") if config.is_file() else None
    if rows and (outside := sorted({number for number in ids if number >= rows})):
        tokens = ", ".join(chat.tokenizer.convert_ids_to_tokens(outside))
        raise ModelError(
            f"{chat.tokenizer.name_or_path} is prompted with {tokens}, above the {rows} ids of its embedding "
            f"(vocab_size of config.json); take the tokenizer that belongs to the model"
        )
