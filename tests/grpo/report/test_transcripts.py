"""Which episodes a page shows, and what it says of them."""

from grpo.ending import Ending
from grpo.report.transcripts import Pair, blocks_of, chips_of, choose_pairs, errors_of
from grpo.types import Episode, ModelCall, Task
from tests.support.reports import make_episode


def named(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.why, episode.task.key) for pair in pairs if (episode := pair.before or pair.after)]


def test_transcripts_show_improved_worse_and_unsolved_questions_once_each() -> None:
    before = [make_episode(i, r, solved=r > 1) for i, r in enumerate([0.1, 0.2, 1.3, -0.8, 0.0, 1.3, 1.2, 0.1])]
    after = [make_episode(i, r, solved=r > 1) for i, r in enumerate([1.3, 1.2, 0.1, -0.8, 0.1, 1.3, 1.2, 1.1])]
    pairs = choose_pairs(before, after, 6)
    assert named(pairs) == [
        ("Improved", "test-0000"),
        ("Improved", "test-0001"),
        ("Improved", "test-0007"),
        ("Improved", "test-0004"),
        ("Got worse", "test-0002"),
        ("Still unsolved", "test-0003"),
    ]
    assert [pair.change for pair in pairs[:2]] == ["+1.20", "+1.00"]
    assert choose_pairs(before, after, 0) == []


def test_transcripts_of_one_side_show_its_best_and_its_worst() -> None:
    records = [make_episode(i, float(i), solved=True) for i in range(5)]
    pairs = choose_pairs(records, [], 4)
    assert named(pairs) == [
        ("Best", "test-0004"),
        ("Best", "test-0003"),
        ("Worst", "test-0000"),
        ("Worst", "test-0001"),
    ]
    assert all(pair.after is None for pair in pairs)


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
