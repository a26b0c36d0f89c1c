"""Messages to token ids, once, append-only.

A chat format knows how to tokenise the first prompt and how to tokenise what follows an assistant turn. It never
renders or tokenises a sampled turn: those ids come from the policy and stay as they are. Two formats:

- ``TemplateChat`` for models whose own template knows tools (Qwen2.5 and others): the text that a delta adds is found
  by rendering it behind a placeholder turn.
- ``HermesChat`` for ChatML models without tools in their template: a short signature of each tool in the system
  message and calls in ``<tool_call>`` tags.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from grpo.errors import ModelError
from grpo.types import Message

CALL_FORMAT = '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>'
_PLACEHOLDER = "\u2042placeholder\u2042"


class Chat(Protocol):
    """What the rollout needs of a chat format."""

    stop_token_ids: list[int]

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids of the first prompt, up to where the assistant's turn begins."""
        ...

    def delta_ids(self, messages: list[Message]) -> list[int]:
        """Ids that follow an ended assistant turn, up to where the next one begins."""
        ...

    def close_ids(self, sampled_ids: list[int]) -> list[int]:
        """Ids that end a turn which stopped for its length; empty for a turn that ended itself."""
        ...

    def decode(self, sampled_ids: list[int]) -> str:
        """The text of a sampled turn, without its end-of-turn token."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands, nothing added."""
        ...


def load_tokenizer(model_path: Path) -> Any:
    """The model folder's tokenizer (transformers, no torch needed)."""
    import os

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(model_path))
    except (OSError, ValueError) as error:
        raise ModelError(f"no tokenizer could be loaded from {model_path}: {error}") from error


def chat_for(tokenizer: Any) -> Chat:
    """The chat format that fits a tokenizer's own template."""
    template = tokenizer.chat_template or ""
    if isinstance(template, dict):
        template = template.get("tool_use") or template.get("default") or ""
    if "tools" in template:
        return TemplateChat(tokenizer)
    if tokenizer.convert_tokens_to_ids("<|im_end|>") in (None, tokenizer.unk_token_id):
        raise ModelError(
            "the model's chat template knows no tools and its vocabulary has no <|im_end|>, so no chat format fits; "
            "use an instruction-tuned model with a tool template (for example Qwen/Qwen2.5-0.5B-Instruct)"
        )
    return HermesChat(tokenizer)


class _Base:
    """What both formats share: encoding, closing and decoding a turn."""

    def __init__(self, tokenizer: Any, stop_token_ids: list[int]):
        self.tokenizer = tokenizer
        self.stop_token_ids = stop_token_ids

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def close_ids(self, sampled_ids: list[int]) -> list[int]:
        ended = bool(sampled_ids) and sampled_ids[-1] in self.stop_token_ids
        return [] if ended else [self.stop_token_ids[0]]

    def decode(self, sampled_ids: list[int]) -> str:
        ids = sampled_ids[:-1] if sampled_ids and sampled_ids[-1] in self.stop_token_ids else sampled_ids
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class HermesChat(_Base):
    """ChatML with ``<tool_call>`` turns for models whose template has no tools."""

    def __init__(self, tokenizer: Any):
        super().__init__(tokenizer, [tokenizer.convert_tokens_to_ids("<|im_end|>")])

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """The messages as ChatML, the tools described in the system message."""
        described = describe_tools(tools)
        parts: list[str] = []
        for index, message in enumerate(messages):
            content = message["content"]
            if index == 0 and described:
                content = f"{content}\n{described}" if message["role"] == "system" else content
                if message["role"] != "system":
                    parts.append(f"<|im_start|>system\n{described}<|im_end|>\n")
            parts.append(f"<|im_start|>{message['role']}\n{content}<|im_end|>\n")
        return self.encode("".join(parts) + "<|im_start|>assistant\n")

    def delta_ids(self, messages: list[Message]) -> list[int]:
        """The newline that ends the assistant's turn, the messages, and the head of the next turn."""
        text = "".join(f"\n<|im_start|>{m['role']}\n{m['content']}<|im_end|>" for m in messages)
        return self.encode(text + "\n<|im_start|>assistant\n")


class TemplateChat(_Base):
    """The model's own template; a delta is what it adds behind a placeholder turn."""

    def __init__(self, tokenizer: Any):
        end = tokenizer.eos_token_id
        for name in ("<|im_end|>", "<|eot_id|>"):
            token_id = tokenizer.convert_tokens_to_ids(name)
            if token_id is not None and token_id != tokenizer.unk_token_id:
                end = token_id
                break
        super().__init__(tokenizer, [end])

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """What the template renders, generation prompt included."""
        text = self.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=True, tokenize=False
        )
        return self.encode(text)

    def delta_ids(self, messages: list[Message]) -> list[int]:
        """What the template renders behind a placeholder turn."""
        head: list[Message] = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _PLACEHOLDER},
        ]
        text = self.tokenizer.apply_chat_template([*head, *messages], add_generation_prompt=True, tokenize=False)
        end = self.tokenizer.convert_ids_to_tokens(self.stop_token_ids[0])
        before, found, after = text.partition(_PLACEHOLDER + end)
        if not found or not before:
            raise ModelError(
                f"the chat template does not write an assistant turn as its text followed by {end!r}; "
                "multi-turn rollouts cannot be appended token for token with it"
            )
        return self.encode(after)


def describe_tools(tools: list[dict[str, Any]]) -> str:
    """Tool schemas as one signature a line (``name(required, optional?)``) and the call format; short on purpose."""
    if not tools:
        return ""
    lines = ["Tools:"]
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters", {})
        required = set(parameters.get("required", ()))
        names = [name if name in required else f"{name}?" for name in parameters.get("properties", {})]
        lines.append(f"{function['name']}({', '.join(names)})")
    return "\n".join([*lines, "Call one tool per turn:", CALL_FORMAT])
