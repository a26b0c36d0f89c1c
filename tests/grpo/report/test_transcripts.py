"""Which episodes a page shows, and what it says of them."""

from grpo.ending import Ending
from grpo.report.transcripts import blocks_of, chips_of, choose_pairs, errors_of
from grpo.types import Episode, ModelCall, Task
from tests.support.reports import make_episode


def shown(before: list[Episode], after: list[Episode]) -> list[tuple[int, float]]:
    return [(pair.before.task.seed, round(pair.change, 3)) for pair in choose_pairs(before, after)]


def test_the_questions_whose_reward_changed_most_stand_first_once_each() -> None:
    before = [make_episode(i, r, solved=r > 1) for i, r in enumerate([0.1, 0.2, 1.3, -0.8, 0.0, 1.3, 1.2, 0.1])]
    after = [make_episode(i, r, solved=r > 1) for i, r in enumerate([1.3, 1.2, 0.1, -0.8, 0.1, 1.3, 1.2, 1.2])]
    assert shown(before, after) == [(0, 1.2), (7, 1.1), (1, 1.0), (4, 0.1), (2, -1.2)]
    again = [make_episode(0, reward, solved=True, sample_index=1) for reward in (1.3, -1.0)]
    assert shown([*before, again[0]], [*after, again[1]])[-2:] == [(0, -2.3), (2, -1.2)]
    failed = make_episode(0, 1.3, solved=True, ending=Ending.INFRASTRUCTURE)
    assert shown(before, [failed, *after[1:]])[0] == (7, 1.1)
    assert shown(before, []) == shown([], after) == []


def test_half_of_the_questions_rose_and_half_fell_where_there_are_enough() -> None:
    def episodes(rewards: list[float]) -> list[Episode]:
        return [make_episode(i, reward, solved=True) for i, reward in enumerate(rewards)]

    none, rewards = episodes([0.0] * 12), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    assert shown(none, episodes(rewards)) == [(5, 6), (4, 5), (3, 4), (2, 3), (11, -6), (10, -5), (9, -4), (8, -3)]
    assert [seed for seed, _ in shown(none, episodes([abs(reward) for reward in rewards[:10]] + rewards[10:]))] == [
        *(5, 4, 3, 9, 2, 8, 11, 10)
    ]


def test_turns_become_calls_text_broken_calls_and_observations() -> None:
    solved = blocks_of(make_episode(0, 1.3, solved=True))
    assert [block.kind for block in solved] == ["call", "observation", "call", "observation", "call"]
    assert (solved[4].title, solved[4].body) == ("return_final_answer", 'answer="Thursday", sources=["m4821"]')
    assert solved[1].title.endswith("(+1 lines)")
    unsolved = blocks_of(make_episode(0, 0.1, solved=False))
    assert [block.kind for block in unsolved] == ["call", "observation", "text", "broken", "observation", "text"]


def test_a_bare_json_call_and_openai_tool_calls_are_calls_too() -> None:
    bare = {"role": "assistant", "content": '{"name": "act", "arguments": {"action": 2}}'}
    tools = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "act", "arguments": '{"action": 3}'}}],
    }
    odd = {"role": "assistant", "content": '{"name": 3}'}
    blocks = blocks_of(Episode("E", Task(0), messages=[bare, tools, odd]))
    assert [(block.kind, block.title, block.body) for block in blocks] == [
        ("call", "act", "action=2"),
        ("call", "act", "action=3"),
        ("broken", "a tool call that cannot be read", 'a tool call needs "name" and "arguments", got {\'name\': 3}'),
    ]


def test_chips_say_what_happened() -> None:
    record = make_episode(1, -0.8, solved=False, ending=Ending.CONTEXT_FULL)
    assert chips_of(record) == [
        ("reward -0.800", "plain"),
        ("success", "bad"),
        ("found by search", "good"),
        ("read", "bad"),
        ("1 invalid call", "bad"),
        ("3 turns", "plain"),
        ("91 tokens", "plain"),
        ("context full", "bad"),
    ]


def test_errors_are_named_by_kind() -> None:
    assert errors_of(make_episode(0, 1.3, solved=True)) == []
    assert errors_of(make_episode(0, 0.1, solved=False)) == ["bad_json"]
    assert errors_of(make_episode(0, 0.0, solved=True, ending=Ending.INFRASTRUCTURE)) == ["infrastructure"]
    cut = make_episode(
        0, 0.0, solved=False, ending=Ending.MAX_TURNS, turn_errors=["", "bad_json", "bad_args", "bad_json"]
    )
    assert errors_of(cut) == ["max_turns", "bad_args", "bad_json"]


def test_what_an_agent_and_its_model_said_is_shown_where_the_env_did_not_hear_it() -> None:
    question = {"role": "user", "content": "2 + 2?"}
    reply = {"role": "assistant", "content": "Let me think.", "tool_calls": [{"function": {"name": "add"}}]}
    numbers = {"prompt_tokens": 1200, "completion_tokens": 7, "seconds": 0.256}
    calls = [ModelCall(messages=[question], reply=reply, **numbers), ModelCall(messages=["?"], error="busy", **numbers)]
    record = Episode("E", Task(0), messages=[question, {"role": "assistant", "content": "4"}], calls=calls)
    text, first, second = blocks_of(record)
    assert (text.kind, text.body) == ("text", "4")
    assert (first.kind, first.title, first.turn) == ("model", "model call 1: 1,200 + 7 tokens, 0.26 s", -1)
    assert first.body == '[user] 2 + 2?\n[assistant] Let me think.\n{"name": "add"}'
    assert second.body == "[error] busy"
    loop = Episode("E", Task(0), messages=[question, reply], calls=calls)
    assert [block.kind for block in blocks_of(loop)] == ["text", "call"]
