"""Chat formats of the models people train, each with a tokenizer that has the family's control tokens.

The templates of Qwen and Llama are the ones that trl ships; the forms of SmolLM3 and Granite 4 are written out here. Ids are of the embedded
model's vocabulary with the family's tokens added behind it.
"""

import importlib.resources
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grpo.chat import Chat, chat_for, load_tokenizer
from grpo.chat.template import HERMES

CHATML_WORDS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Tokens of their own in Qwen's and SmolLM3's vocabulary that are not special, yet the templates mark tool results with them."""
LLAMA_CONTROL = ("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
                 "<|python_tag|>", "<|end_of_text|>")  # fmt: skip

WORD_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How these families' tokenizers split text before they merge: line breaks at the end of a head stay together."""

SMOLLM3 = """\
{%- set mode = "/think" if enable_thinking is not defined or enable_thinking else "/no_think" -%}
{%- set said = messages[0].content if messages[0].role == "system" else "" -%}
{%- if "/no_think" in said -%}{%- set mode = "/no_think" -%}{%- endif -%}
{%- set open = "" if mode == "/think" else "<think>\\n\\n</think>\\n" -%}
{{- "<|im_start|>system\\n## Metadata\\n\\nToday Date: " ~ strftime_now("%d %B %Y") ~ "\\nReasoning Mode: " ~ mode -}}
{{- "\\n\\n## Custom Instructions\\n\\n" ~ said.replace("/no_think", "").rstrip() ~ "\\n\\n" -}}
{%- for tool in tools or [] -%}{{- (tool | tojson) ~ "\\n" -}}{%- endfor -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
  {%- if message.role == "assistant" -%}
    {{- "<|im_start|>assistant\\n" ~ open ~ message.content.lstrip("\\n") ~ "<|im_end|>\\n" -}}
  {%- elif message.role != "system" -%}
    {{- "<|im_start|>user\\n" ~ message.content ~ "<|im_end|>\\n" -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\\n" ~ open -}}{%- endif -%}
"""

GRANITE4 = """\
{%- set tools = (tools or []) | map("tojson") | join("\\n") -%}
{%- set said = messages[0].content if messages[0].role == "system" else "" -%}
{{- "<|start_of_role|>system<|end_of_role|>" ~ said ~ "\\n\\n<tools>\\n" ~ tools ~ "\\n</tools><|end_of_text|>\\n" -}}
{%- for message in messages -%}
  {%- if message.role == "user" -%}
    {{- "<|start_of_role|>user<|end_of_role|>" ~ message.content ~ "<|end_of_text|>\\n" -}}
  {%- elif message.role == "assistant" -%}
    {{- "<|start_of_role|>assistant<|end_of_role|>" ~ (message.content or "") -}}
    {%- for call in message.tool_calls or [] -%}
      {{- "\\n" if message.content or not loop.first -}}
      {{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ call.function.arguments | tojson -}}
      {{- "}\\n</tool_call>" -}}
    {%- endfor -%}
    {{- "<|end_of_text|>\\n" -}}
  {%- elif message.role == "tool" -%}
    {%- if messages[loop.index0 - 1].role != "tool" -%}{{- "<|start_of_role|>user<|end_of_role|>" -}}{%- endif -%}
    {{- "\\n<tool_response>\\n" ~ message.content ~ "\\n</tool_response>" -}}
    {%- if loop.last or messages[loop.index0 + 1].role != "tool" -%}{{- "<|end_of_text|>\\n" -}}{%- endif -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|start_of_role|>assistant<|end_of_role|>" -}}{%- endif -%}
"""
GRANITE4_CONTROL = ("<|end_of_text|>", "<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>")

TOOL_TEMPLATE = (
    "{% if tools %}<|im_start|>system\ntools:{% for t in tools %} {{ t.function.name }}{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML that shows tools and has no place for calls."""


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def with_calls(form):
    """ChatML that shows tools and writes each call in a form of its own."""
    calls = "{% for call in m.tool_calls or [] %}" + form + "{% endfor %}"
    said = CHATML.replace("{{ m.content }}", "{{ m.content or '' }}" + calls)
    return "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}" + said


def at_a_message(form):
    """ChatML that shows tools and calls, with a form of its own for what a message says."""
    return with_calls(
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
    ).replace("{{ m.content or '' }}", form)


@dataclass(frozen=True)
class Family:
    """A model family: its template (a file of trl's, or its text), tokens, and how it writes a turn.

    ``after`` is what stands between the end of a turn and the head of the next message.
    """

    name: str
    template: str | None
    words: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    end: str = "<|im_end|>"
    after: str = "\n"
    call: str = '<tool_call>\n{"name": "search_inbox", "arguments": {"keywords": ["Atlas"]}}\n</tool_call>'
    kwargs: dict[str, Any] = field(default_factory=dict)
    speaker: str = "tool"  # in which role an env speaks

    def tokenizer(self, model_dir: Path) -> Any:
        from tokenizers import AddedToken, Regex
        from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

        tokenizer = load_tokenizer(model_dir)
        if self.template is None:
            return tokenizer
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
            [Split(Regex(WORD_SPLIT), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        tokenizer.add_tokens([AddedToken(w, special=False, normalized=False) for w in self.words])
        tokenizer.add_tokens([AddedToken(w, special=True, normalized=False) for w in self.control], special_tokens=True)
        if self.control:
            tokenizer.bos_token, tokenizer.eos_token = self.control[:2]
        tokenizer.chat_template = self._source()
        tokenizer.name_or_path = ""  # the embedded model has no rows for these tokens
        return tokenizer

    def chat(self, model_dir: Path, history: Any = "fork") -> Chat:
        return chat_for(self.tokenizer(model_dir), history, self.kwargs)

    def any_chat(self, model_dir: Path) -> Chat:
        """The format, also where no run could read its calls; held to what the template itself rewrites."""
        tokenizer = self.tokenizer(model_dir)
        template = HERMES if self.template is None else tokenizer.chat_template
        return Chat(tokenizer, template, "fork", self.kwargs)

    def _source(self) -> str:
        if not str(self.template).endswith(".jinja"):
            return str(self.template)
        pytest.importorskip("trl", reason="the templates of Qwen and Llama come with trl (extra 'dev')")
        return (importlib.resources.files("trl") / "chat_templates" / str(self.template)).read_text(encoding="utf-8")


_LLAMA_CALL = '{"name": "search_inbox", "parameters": {"keywords": ["Atlas"]}}'
FAMILIES = [
    Family("hermes (SmolLM2)", None),
    Family("qwen2.5", "qwen2_5.jinja", CHATML_WORDS),
    Family("qwen3", "qwen3.jinja", CHATML_WORDS),
    Family("qwen3 without reasoning", "qwen3.jinja", CHATML_WORDS, kwargs={"enable_thinking": False}),
    Family("llama 3.1", "llama3_1.jinja", (), LLAMA_CONTROL, "<|eot_id|>", "", _LLAMA_CALL),
    Family("llama 3.2", "llama3_2.jinja", (), LLAMA_CONTROL, "<|eot_id|>", "", _LLAMA_CALL),
    Family("smollm3", SMOLLM3, CHATML_WORDS),
    Family("smollm3 without reasoning", SMOLLM3, CHATML_WORDS, kwargs={"enable_thinking": False}),
]
QWEN3 = FAMILIES[2]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


LFM2_CONTROL = ("<|startoftext|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_list_start|>",
                "<|tool_list_end|>", "<|tool_response_start|>", "<|tool_response_end|>")  # fmt: skip
OWN_FORMS = [
    Family("qwen3.5", "qwen3_5_think.jinja", CHATML_WORDS),
    Family("qwen3.5 without reasoning", "qwen3_5_nothink.jinja", CHATML_WORDS),
    Family("qwen3.6", "qwen3_6.jinja", CHATML_WORDS),
    Family("lfm2", "lfm2_v2.jinja", (), LFM2_CONTROL),
    Family("qwen3 2507", "qwen3_instruct_2507.jinja", CHATML_WORDS),
    Family("granite 4", GRANITE4, CHATML_WORDS[2:], GRANITE4_CONTROL, "<|end_of_text|>"),
]
"""Families with calls that are no JSON, as trl 1.16 ships the templates, and two whose calls are JSON."""


def _of_trl(name: str, *control: str, end: str = "<|im_end|>", speaker: str = "tool") -> Family:
    words = CHATML_WORDS if end == "<|im_end|>" else ()
    return Family(name, f"{name}.jinja", words, control, end, speaker=speaker)


EVERY_TEMPLATE = [
    *FAMILIES,
    _of_trl("qwen3_instruct_2507"),
    _of_trl("qwen3_vl"),
    _of_trl("qwen3_5_think"),
    _of_trl("lfm2"),
    _of_trl("nemotron_3_nano"),
    _of_trl("phi3_5", "<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", end="<|end|>"),
    _of_trl("gemma3", "<bos>", "<end_of_turn>", "<start_of_turn>", end="<end_of_turn>", speaker="user"),
    _of_trl("glm4moe", "<|endofprompt|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "[gMASK]", "<sop>", end="<|user|>"),
    _of_trl("cohere", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>", end="<|END_OF_TURN_TOKEN|>", speaker="user"),
    _of_trl("deepseekv3", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", end="<｜end▁of▁sentence｜>", speaker="user"),
]  # fmt: skip
"""16 templates of ten makers, two of them without reasoning, too; of those that are not in `FAMILIES` a run can use some."""
