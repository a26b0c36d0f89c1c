"""A chat format for servers that render messages themselves: one Jinja template that gives the ids of the rollout.

A prelude does in Jinja what a ``Chat`` does in Python: it breaks tokens that a message may not spell, fixes the date
and sets the run's template variables. The chat's own template follows. No
template knows how a turn was sampled: the ids of a turn are the same where the model tokenised and spaced it as usual.

The options of one server (``--default-chat-template-kwargs``) would not do, because another server would prompt a
merged model otherwise. Tests hold the template to the ids of the rollout.
"""

import json
import re
from dataclasses import dataclass

from grpo.chat.probe import PROBE_CALL, PROBE_TOOL
from grpo.chat.template import TEMPLATE_DATE, Chat, control_tokens, markup_tokens

TEMPLATE_FILE = "chat_template.jinja"
"""Where tokenizers keep their template, and where it lies beside an adapter."""

_TIME_CODE = re.compile(r"%-?[A-Za-z]")
_TOOL_PARSERS = {
    "hermes": r'<tool_call>\n\{"name"',
    "llama3_json": r'\{"name": "\w+", "parameters"',
    "qwen3_xml": r"(\s*</think>\s*)?<tool_call>\n<function=",
    "lfm2": r"<\|tool_call_start\|>\[",
}
"""vLLM's, by how a model begins a call."""
_HARMLESS = """\
{{%- set safe = namespace(messages=[], text="") -%}}
{{%- for message in messages -%}}
  {{%- if message.role != "assistant" and message.content is string -%}}
    {{%- set safe.text = message.content -%}}
    {{%- for token in {control} + ([] if message.role == "system" else {markup}) -%}}
      {{%- set safe.text = safe.text.replace(token, token[:1] ~ " " ~ token[1:]) -%}}
    {{%- endfor -%}}
    {{%- set safe.messages = safe.messages + [dict(message, content=safe.text)] -%}}
  {{%- else -%}}
    {{%- set safe.messages = safe.messages + [message] -%}}
  {{%- endif -%}}
{{%- endfor -%}}
{{%- set messages = safe.messages -%}}
"""


@dataclass(frozen=True, slots=True)
class ServedChat:
    """How a server is to render messages and to read calls.

    Attributes:
        template: Jinja, as ``apply_chat_template`` and vLLM's ``--chat-template`` take it.
        tool_parser: vLLM's ``--tool-call-parser``; "" where it has none for the model's calls.
    """

    template: str
    tool_parser: str


def served_chat(chat: Chat) -> ServedChat:
    """The template and the parser for a chat format of ``chat_for``."""
    body = chat.template
    variables = {name: value for name, value in chat.template_kwargs.items() if name != "strftime_now"}
    broken = {"control": control_tokens(chat.tokenizer), "markup": markup_tokens(chat.tokenizer)}
    prelude = _HARMLESS.format(**{name: json.dumps(tokens, ensure_ascii=False) for name, tokens in broken.items()})
    prelude += "".join(
        f"{{%- if {name} is not defined -%}}{{%- set {name} = {value!r} -%}}{{%- endif -%}}\n"
        for name, value in variables.items()
    )
    if "strftime_now" in body:
        codes = sorted(set(_TIME_CODE.findall(body)))
        dated = "".join(f'.replace("{code}", "{TEMPLATE_DATE.strftime(code)}")' for code in codes)
        prelude += f"{{%- macro strftime_now(form) -%}}{{{{- form{dated} -}}}}{{%- endmacro -%}}\n"
    return ServedChat(prelude + body, _tool_parser(chat))


def _tool_parser(chat: Chat) -> str:
    written = chat.turn_text(PROBE_CALL, [PROBE_TOOL])
    return next((name for name, form in _TOOL_PARSERS.items() if re.match(form, written)), "")
