"""Messages become token ids once, and ids are only ever appended.

A chat format tokenises the first prompt and whatever follows an assistant turn. It never renders or tokenises a turn
that was sampled: those ids come from the policy and stay as they are. `Chat` does so with a template:

- the model's own where that knows tools (Qwen2.5, Qwen3, Llama 3.1 and later, SmolLM3 and others);
- ``hermes.jinja`` for ChatML models without tools in their template (SmolLM2): a short signature of each tool in the
  system message and calls in ``<tool_call>`` tags.

A probe is rendered before a template is taken (``grpo/chat/probe.py``).
"""

from collections.abc import Mapping
from typing import Any

from grpo.chat.probe import USABLE, require_chatml, require_whole_round, shows_tools
from grpo.chat.served import TEMPLATE_FILE, ServedChat, served_chat
from grpo.chat.template import HERMES, Chat, History, load_tokenizer
from grpo.errors import ModelError

__all__ = [
    "TEMPLATE_FILE",
    "Chat",
    "History",
    "ServedChat",
    "chat_for",
    "load_tokenizer",
    "served_chat",
]


def chat_for(tokenizer: Any, history: History = "fork", template_kwargs: Mapping[str, Any] | None = None) -> Chat:
    """The chat format that fits a tokenizer's own template.

    A template that shows the tools it is given is taken, where the calls that it writes can be read. Any other model is
    prompted in plain ChatML, with the tools in the system message: its template must write just that, and a tokenizer
    without a template must have ``<|im_end|>``. A whole round is tried with either.

    Args:
        tokenizer: Of the model; see ``load_tokenizer``.
        history: What happens where the template rewrites earlier turns; see `Chat`.
        template_kwargs: Variables for the template, for example ``{"enable_thinking": False}``.

    Raises:
        ModelError: No format fits, its calls cannot be read, or the template cannot be appended to.
    """
    try:
        own = str(tokenizer.get_chat_template(tools=[{}])) if tokenizer.chat_template else ""
    except ValueError as error:
        raise ModelError(f"{tokenizer.name_or_path} names no chat template as its own: {error}; {USABLE}") from error
    lacks = "knows no tools"
    if "tools" in own:
        chat = Chat(tokenizer, own, history, template_kwargs)
        if shows_tools(chat):
            require_whole_round(chat)
            return chat
        lacks = "does not show the tools that it is given"
    if tokenizer.convert_tokens_to_ids("<|im_end|>") in (None, tokenizer.unk_token_id):
        raise ModelError(
            f"the model's chat template {lacks} and its vocabulary has no <|im_end|>, so no chat format fits; {USABLE} "
            "(for example Qwen/Qwen2.5-0.5B-Instruct)"
        )
    chat = Chat(tokenizer, HERMES, "append")
    if own:
        require_chatml(chat, own)
    if template_kwargs:
        raise ModelError(
            f"rollout.chat_template_kwargs {dict(template_kwargs)} would have no effect: the model's template {lacks}, "
            "so plain ChatML takes its place"
        )
    require_whole_round(chat)
    return chat
