"""A judge served by a local vLLM of our own: what is sent, counted and said when its context is too small."""

import json

import pytest

from judges import ContextOverflow, JudgeClient, MalformedVerdict, Session, Usage, ruler
from judges.llm.prompt_text import count_message_tokens
from judges.scoring.prompt import build_prompts
from judges.scoring.verdict import RESPONSE_FORMAT, parse_verdict

pytestmark = pytest.mark.vllm

USER = {"role": "user", "content": "When is the review?"}
LISTS = [[USER, {"role": "assistant", "content": text}] for text in ("On Monday at ten.", "No idea.")]


def judge(server, **params):
    name, url = f"hosted_vllm/{server.model}", f"{server.url}/v1"
    return JudgeClient(name, api_base=url, api_key=server.key, extra_litellm_params=params)


async def test_a_local_judge_answers_in_the_asked_form_and_is_counted(vllm_server):
    (prompt,), session = build_prompts(LISTS), Session()
    client = judge(vllm_server, max_tokens=120, temperature=0.0)
    reply = await session.complete(client, prompt.messages, RESPONSE_FORMAT, Usage())
    assert 0 < reply.prompt_tokens <= count_message_tokens(prompt.messages)
    assert reply.completion_tokens > 0
    assert reply.cost_dollars is None
    if reply.finish_reason == "stop":  # the grammar holds the form; a model this small cannot hold the ids
        said = json.loads(reply.content)
        assert said.keys() == {"scores"}
        assert all(entry.keys() == {"trajectory_id", "explanation", "score"} for entry in said["scores"])
        with pytest.raises(MalformedVerdict, match=r"ids|finite number"):
            parse_verdict(reply.content, {"no such id"})


async def test_a_group_gets_scores_or_a_typed_error_and_nothing_in_between(vllm_server):
    session = Session()
    client = judge(vllm_server, max_tokens=120, temperature=0.0)
    try:
        scores = await ruler(LISTS, judges=[client], session=session, max_prompt_tokens=1700)
    except MalformedVerdict:
        assert session.usage.calls == 2
    else:
        assert all(0 <= score.score <= 1 for score in scores)
    assert session.usage.prompt_tokens > 0


async def test_a_prompt_beyond_its_context_is_an_overflow_and_one_within_the_budget_is_not(vllm_server):
    long = [[*messages, {"role": "tool", "content": "the review was moved " * 600}] for messages in LISTS]
    client = judge(vllm_server, max_tokens=50)
    with pytest.raises(ContextOverflow, match="lower max_prompt_tokens"):
        await ruler(long, judges=[client], max_prompt_tokens=None)
    session = Session()
    with pytest.raises(MalformedVerdict):
        await ruler(long, judges=[client], max_prompt_tokens=1900, session=session)
    assert session.usage.calls == 2
