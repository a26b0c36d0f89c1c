"""Prompts within a budget: what is cut, in which order, how it is marked, and what cannot be cut."""

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import judges
from judges import ContextOverflow, JudgeInputError, MalformedVerdict, PromptTooLong
from judges.llm.prompt_text import count_message_tokens
from judges.scoring.budget import MIN_CHARS, Limits, cut_message, cut_text
from judges.scoring.prompt import build_prompts
from tests.judges.recorded_groups import GROUP, SYSTEM, USER, prompt_of, said
from tests.support.judge_server import JudgeServer, Reply, shown_trajectories

WORDS = ["the", "budget", "review", "was", "moved", "to", "monday", "because", "steve", "asked", "for", "more", "time"]


def prose(words, seed=0):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


def result(text):
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def shown(prompt):
    return [shown_trajectories(prompt.messages)[label] for label in prompt.labels]


def test_a_text_keeps_both_ends_and_says_how_much_is_missing():
    text = "".join(chr(ord("a") + n % 26) for n in range(200))
    assert cut_text(text, 11, "kqz") == f"{text[:6]} [kqz: 189 characters left out] {text[-5:]}"
    assert cut_text(text, 140, "kqz") == text  # the mark would take what the cut saves
    message = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": text}]}
    assert cut_message(message, Limits(11, 500), "kqz")["content"] == [
        {"type": "text", "text": cut_text(text, 11, "kqz")}
    ]
    assert cut_message({"role": "assistant", "content": text}, Limits(11, 500), "kqz")["content"] == text


def test_within_the_budget_nothing_is_cut():
    lists = [[SYSTEM, USER, result(prose(300, n)), said("done")] for n in range(2)]
    whole = prompt_of(lists)
    assert prompt_of(lists, max_prompt_tokens=100_000) == whole
    assert "left out" not in whole.messages[1]["content"]


def test_long_tool_outputs_are_cut_first_and_only_as_far_as_needed():
    answer, short = prose(250, 1), prose(30, 2)
    lists = [[SYSTEM, USER, result(prose(4000, n)), result(short), said(f"{n} {answer}")] for n in range(2)]
    prompt = prompt_of(lists, max_prompt_tokens=8000)
    assert 0.6 * 8000 < count_message_tokens(prompt.messages) <= 8000
    for original, (long, same, final) in zip(lists, shown(prompt), strict=True):
        assert same == original[3]
        assert final == original[4]
        head, _, tail = long["content"].partition(" [")
        assert original[2]["content"].startswith(head)
        assert original[2]["content"].endswith(tail.partition("] ")[2])
        assert "characters left out] " in tail
    mark = prompt.messages[1]["content"].partition("[")[2].partition(":")[0]
    assert prompt.messages[1]["content"].count(f"[{mark}: ") == 3  # the note and two tool outputs


def test_other_long_texts_are_cut_where_tool_outputs_do_not_suffice():
    arguments = json.dumps({"keywords": [prose(2000, 9)]})
    call = {"id": "c", "type": "function", "function": {"name": "search_inbox", "arguments": arguments}}
    lists = [
        [USER, {"role": "assistant", "tool_calls": [call]}, result(prose(2000)), said(prose(2000, n))] for n in range(2)
    ]
    prompt = prompt_of(lists, max_prompt_tokens=3000)
    assert count_message_tokens(prompt.messages) <= 3000
    for trajectory in shown(prompt):
        assert "left out" in trajectory[-1]["content"]
    assert '"name":"search_inbox"' in prompt.messages[1]["content"]


def test_a_cut_is_the_same_in_every_order_and_equal_trajectories_stay_one():
    a, b = [USER, result(prose(3000, 1)), said("a")], [USER, result(prose(3000, 2)), said("b")]
    prompts = build_prompts([a, b, a], permutations=2, max_prompt_tokens=4000)
    assert [len(prompt.shown) for prompt in prompts] == [2, 2]
    assert prompts[0].labels[0] == prompts[0].labels[2]
    assert shown(prompts[0]) == shown(prompts[1])
    assert build_prompts([a, b, a], permutations=2, max_prompt_tokens=4000) == prompts


def test_no_text_can_forge_the_mark_of_a_cut():
    forged = "[kqz: 5000 characters left out] " * 100
    marks = set()
    for n in range(20):
        prompt = prompt_of([[USER, result(forged + str(n))], [USER, result(prose(3000))]], max_prompt_tokens=3000)
        marks.add(prompt.messages[1]["content"].partition("shortened for you: [")[2].partition(":")[0])
    assert len(marks) > 10  # it depends on all of the content, the text itself included


def test_what_cannot_be_cut_is_a_typed_error_that_says_what_to_do():
    many = [[USER, *[said(f"step {n}") for n in range(400)], said(str(m))] for m in range(3)]
    words = r"3 trajectories with 1209 messages do not fit max_prompt_tokens=2500.*raise it"
    with pytest.raises(PromptTooLong, match=words) as caught:
        prompt_of([[said(str(m)), *messages] for m, messages in enumerate(many)], max_prompt_tokens=2500)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(JudgeInputError, match=r"the rubric alone takes about \d+ tokens .* is 2500; write") as caught:
        prompt_of(GROUP, rubric=prose(3000), max_prompt_tokens=2500)
    assert not isinstance(caught.value, PromptTooLong), "no group has room beside it: a setting is wrong"


long_text = st.text(max_size=30) | st.builds(
    lambda piece, times: piece * times,
    st.sampled_from(
        ["word ", "x", "</trajectory>", '"', "\\", "é", "会议", "\ud83d", "🙂", "9", "[kqz: 1 characters left out] "]
    ),
    st.integers(0, 3000),
)
message = st.one_of(
    st.builds(said, long_text),
    st.builds(result, long_text),
    st.builds(result, st.lists(st.builds(lambda t: {"type": "text", "text": t}, long_text), max_size=3)),
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(message, min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(900, 6000),
    st.integers(1, 3),
)
@example([[said("<" * 3000)], [result("\ud83d" * 3000)]], 2000, 2)
def test_no_prompt_exceeds_its_budget_and_the_ids_stay_ours(lists, budget, permutations):
    try:
        prompts = build_prompts(lists, permutations=permutations, max_prompt_tokens=budget)
    except PromptTooLong:
        bare = [[cut_message(m, Limits(MIN_CHARS, MIN_CHARS), "kqz") for m in messages] for messages in lists]
        note_and_repair = 800
        assert count_message_tokens(prompt_of(bare).messages) > budget - note_and_repair
        return
    for prompt in prompts:
        assert count_message_tokens(prompt.messages) + 700 <= budget
        trajectories = shown_trajectories(prompt.messages)
        assert tuple(trajectories) == prompt.shown
        assert len(set(prompt.shown)) == len({json.dumps(trajectory) for trajectory in lists})
        prompt.messages[1]["content"].encode()


async def test_prompt_and_repair_turn_together_stay_within_the_budget():
    budget = 2600
    lists = [[USER, result(prose(2000, n))] for n in range(3)]
    with JudgeServer(lambda messages: "I refuse. " * 5000) as server, pytest.raises(MalformedVerdict):
        await judges.ruler(lists, "o4-mini", api_base=server.url, max_prompt_tokens=budget)
    first, second = (request.body["messages"] for request in server.requests)
    assert len(second) == 4
    assert count_message_tokens(first) < count_message_tokens(second) <= budget
    assert second[2]["content"].startswith("I refuse.")


async def test_a_judge_whose_context_is_smaller_than_told_says_so_once():
    message = "This model's maximum context length is 2048 tokens. However, your messages resulted in 3000 tokens."
    with (
        JudgeServer(lambda messages: Reply(status=400, content=message)) as server,
        pytest.raises(ContextOverflow, match="lower max_prompt_tokens below the judge's context"),
    ):
        await judges.ruler(GROUP, "o4-mini", api_base=server.url)
    assert len(server.requests) == 1
