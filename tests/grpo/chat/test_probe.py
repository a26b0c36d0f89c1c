"""Which chat format is taken: a template is tried with a tool and a call, and is refused where the policy would be blind."""

import re

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from grpo.chat import chat_for, load_tokenizer, served_chat
from grpo.chat.template import HERMES
from grpo.errors import ModelError
from grpo.machine.models import resolve_model
from tests.grpo.chat.templates import CHATML, CHATML_WORDS, TOOL_TEMPLATE, Family, at_a_message, with_calls
from tests.support.envs import TalkEnv
from tests.support.tiny_model import tiny_chat_model_folder

TOOLS = list(TalkEnv.tools)
LLAMA3 = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}"
)
PHI4_MINI = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% if m.role == 'system' and m.tools %}<|tool|>{{ m.tools }}<|/tool|>{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PHI4 = (
    "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"
)
MISTRAL_CALL = (
    "{% if call.id is not defined or call.id | length != 9 %}{{ raise_exception('Tool call IDs: length 9!') }}{% endif %}"
    "[TOOL_CALLS] [{{ (call.function | tojson)[:-1] }}, \"id\": \"{{ call.id }}\"}]"
)  # fmt: skip


def tokenizer_with(model_dir, template):
    tokenizer = load_tokenizer(model_dir)
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize(
    ("template", "end", "said"),
    [
        (LLAMA3, "<|eot_id|>", "knows no tools"),
        (PHI4_MINI, "<|end|>", "does not show the tools that it is given"),
    ],
    ids=["llama 3", "phi-4 mini"],
)
def test_a_template_that_shows_no_tools_and_is_no_chatml_is_refused_with_what_to_use(template, end, said):
    words = models.WordLevel({"<|unk|>": 0, end: 1}, "<|unk|>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), unk_token="<|unk|>", eos_token=end)
    tokenizer.chat_template = template
    vocabulary = r"its vocabulary has no <\|im_end\|>.*use a model whose calls.*for example Qwen"
    with pytest.raises(ModelError, match=f"{said} and {vocabulary}"):
        chat_for(tokenizer)


def test_chatml_that_shows_tools_in_a_way_of_its_own_is_refused(model_dir):
    chatml = tokenizer_with(model_dir, PHI4_MINI.replace("<|end|>", "<|im_end|>"))
    with pytest.raises(ModelError, match="plain ChatML cannot take its place"):
        chat_for(chatml)


def test_chatml_that_shows_no_tools_is_prompted_with_them_in_the_system_message(model_dir):
    speaks = "{% if messages[0].tools %}{{ messages[0].tools }}{% endif %}" + CHATML
    chat = chat_for(tokenizer_with(model_dir, speaks))
    assert chat.template == HERMES
    assert "search_inbox(keywords?)" in chat.tokenizer.decode(chat.prompt_ids(list(TalkEnv.opening), TOOLS))


def test_plain_chatml_stays_for_the_embedded_model_and_where_there_is_no_template(tmp_path):
    embedded = load_tokenizer(resolve_model("smollm2-135m").path)
    assert "You are a helpful AI assistant named SmolLM" in embedded.chat_template
    assert chat_for(embedded).template == HERMES
    bare = load_tokenizer(tiny_chat_model_folder(tmp_path))
    assert bare.chat_template is None
    assert chat_for(bare).template == HERMES


WRITES = "the template writes a conversation otherwise, as '{}.*use a model whose calls are read: Qwen2.5"
CALLS = "cannot be prompted with tools: a call as '{}' cannot be read.*use a model whose calls are read: Qwen2.5"
TO_ANOTHER = "to={{ call.function.name }} {{ call.function.arguments | tojson }}<|call|>"
AT_A_REPLY = (
    "{% if m.role == 'tool' and not m.{} %}{{ raise_exception('{} is wanted') }}{% endif %}{{ m.content or '' }}"
)


REFUSED = {
    "ids of calls at a reply": (
        at_a_message(AT_A_REPLY.replace("{}", "tool_call_id")),
        "cannot be prompted with tools: .* roles system, user, assistant, tool: tool_call_id is wanted; {}",
        "use a model",
    ),
    "the name of a tool at a reply": (
        at_a_message("{{ m.name + ': ' if m.role == 'tool' else '' }}{{ m.content or '' }}"),
        "cannot be prompted with tools: .* has no attribute 'name'; {}",
        "use a model",
    ),
    "no system message beside tools": (
        at_a_message("{{ raise_exception('no system') if m.role == 'system' else m.content or '' }}"),
        "cannot be prompted with tools: .* refuses the roles system, user: no system; {}",
        "use a model",
    ),
    "users and assistants that alternate": (
        at_a_message("{{ m.content or '' }}").replace(
            "{% for m in messages %}",
            "{% set n = namespace(said=0) %}{% for m in messages %}{% if m.role in ['user', 'assistant'] %}"
            "{% if (m.role == 'user') != (n.said % 2 == 0) %}{{ raise_exception('roles alternate') }}{% endif %}"
            "{% set n.said = n.said + 1 %}{% endif %}",
        ),
        "refuses the roles system, user, assistant, tool, assistant, user: roles alternate; {}",
        "use a model",
    ),
    "replies of tools are left out": (
        at_a_message("{{ m.content if m.role != 'tool' else '' }}"),
        "the model's chat template leaves out what tool said: {}",
        "'",
    ),
    "a system message that tools take the place of": (
        at_a_message("{{ m.content if m.role != 'system' or not tools else '' }}"),
        "the model's chat template leaves out what system said: {}",
        "'",
    ),
    "later turns that are numbered": (
        at_a_message("{{ loop.index if loop.index > 5 else '' }}{{ m.content or '' }}"),
        "the model's chat template writes turns otherwise later: {}",
        "'",
    ),
    "phi-4": (PHI4, WRITES, "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|>Why?"),
    "begins with a token": ("{{ bos_token }}" + CHATML, WRITES, r"<|im_start|><|im_start|>system\nBe brief."),
    "no line breaks": (CHATML.replace("\n", ""), WRITES, "<|im_start|>systemBe brief.<|im_end|>"),
    "upper case": (
        "{% if tools %}t{% endif %}{% for m in messages %}[{{ m.content | upper }}]{% endfor %}",
        "does not write an assistant turn as its text",
        "",
    ),
    "no token after a turn": (
        TOOL_TEMPLATE.replace("{{ m.content }}", "{{ m.content if m.role != 'x' else '' }}!"),
        r"followed by a special token \(here by '{}",
        "!<|im_end|>",
    ),
    "no system message": (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML,
        "refuses the roles system, user, assistant, user: no system",
        "",
    ),
    "ministral 3": (
        with_calls("[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}"),
        CALLS,
        '[TOOL_CALLS]probe_of_the_tools[ARGS]{"a": 1}',
    ),
    "python": (
        with_calls("[{{ call.function.name }}(a={{ call.function.arguments.a }})]"),
        CALLS,
        "[probe_of_the_tools(a=1)]",
    ),
    "no arguments": (with_calls('{"name": "{{ call.function.name }}"}'), CALLS, '{"name": "probe_of_the_tools"}'),
    "arguments taken for a text": (
        with_calls("{{ call.function.name + call.function.arguments }}"),
        "the model cannot be prompted with tools: .* refuses the roles user, assistant",
        "",
    ),
    "an index that is not there": (
        at_a_message("{{ m.content.index('no such') if m.role == 'tool' else '' }}{{ m.content or '' }}"),
        "refuses the roles system, user, assistant, tool: substring not found; {}",
        "use a model",
    ),
    "a division by nothing": (
        at_a_message("{{ 1 // 0 }}"),
        "refuses the roles user, assistant, user: {}",
        "integer div",
    ),
    "a range without an end": ("{% for n in range(10 ** 9) %}{% endfor %}", "refuses .*: {}", "Range too big."),
    "a pointer": (
        "version https://git-lfs.github.com/spec/v1",
        "writes a conversation otherwise, as '{}",
        "version https:",
    ),
    "several, and none of its own": ({"rag": CHATML}, "names no chat template as its own: .*{}", "['rag']"),
    "a number": (7, "writes a conversation otherwise, as '{}'", "7"),
    "a call without an end": (
        with_calls(TO_ANOTHER).replace("<|im_end|>", "{% if not m.tool_calls %}<|im_end|>{% endif %}"),
        r"does not end a turn of tool calls with '<\|im_end\|>': .*to=probe_of_the_tools.*{}",
        "<|call|>",
    ),
}
"""Templates, with what is said of each and what of it is shown."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_does_not_fit_is_refused_with_what_it_writes(model_dir, name):
    template, said, shown = REFUSED[name]
    with pytest.raises(ModelError, match=said.replace("{}", re.escape(shown))):
        chat_for(tokenizer_with(model_dir, template))


def test_the_calls_of_gpt_oss_cannot_be_read(model_dir):
    tokens = ("<|startoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>")
    with pytest.raises(ModelError, match=r"use a model whose calls are read: Qwen2\.5"):
        Family("gpt-oss", "gptoss.jinja", (), tokens).chat(model_dir)


def test_a_template_that_wants_ids_of_calls_is_served_without_a_parser(model_dir):
    chat = chat_for(tokenizer_with(model_dir, with_calls(MISTRAL_CALL)))
    assert served_chat(chat).tool_parser == ""
    call = {"id": "abcdef123", "function": {"name": "search_inbox", "arguments": '{"keywords": ["Atlas"]}'}}
    assert chat.turn_text({"role": "assistant", "tool_calls": [call]}, TOOLS) == (
        '[TOOL_CALLS] [{"name": "search_inbox", "arguments": {"keywords": ["Atlas"]}, "id": "abcdef123"}]'
    )


def test_a_template_that_refuses_calls_where_no_tools_are_given_is_served_without_a_parser(model_dir):
    form = "{% if not tools %}{{ raise_exception('which tools?') }}{% endif %}{{ call.function | tojson }}"
    chat = chat_for(tokenizer_with(model_dir, with_calls(form)))
    with pytest.raises(ModelError, match=r"which tools\?"):
        chat.turn_text({"role": "assistant", "tool_calls": [{"name": "a"}]}, [])
    assert served_chat(chat).tool_parser == ""


def test_a_template_that_spells_what_the_model_has_no_row_for_is_refused(tmp_path):
    folder = tiny_chat_model_folder(tmp_path / "model")
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens([f"<extra_{number}>" for number in range(6)])
    tokenizer.chat_template = at_a_message("{{ '<extra_4>' if m.role == 'tool' else '' }}{{ m.content or '' }}")
    tokenizer.save_pretrained(folder)
    assert chat_for(load_tokenizer(folder)).encode("<extra_4>") == [263], "the last row of 264"
    tokenizer.chat_template = tokenizer.chat_template.replace("extra_4", "extra_5")
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match=rf"^{folder} is prompted with <extra_5>, above the 264 ids of its embedding"):
        chat_for(load_tokenizer(folder))


def test_a_template_that_writes_no_reasoning_later_is_taken_as_its_history_says(model_dir):
    """Qwen3 leaves an empty thought out of earlier turns, which is no rewriting of what was said."""
    for history in ("fork", "append"):
        chat = Family("qwen3", "qwen3.jinja", CHATML_WORDS, kwargs={"enable_thinking": False}).chat(model_dir, history)
        assert chat.history == history
