"""Episodes as text."""

from grpo.chat.transcript import MAX_MESSAGE_CHARS, best_and_worst, transcript
from grpo.ending import Ending
from grpo.types import Episode, Task
from tests.support.episodes import say


def episode(reward: float, ending: Ending = Ending.ANSWERED) -> Episode:
    made = Episode("X-v0", Task(1, "q-7"), 0, 0, reward=reward, ending=ending)
    made.messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann."}]
    say(made, [1, 2, 3], [4, 5], [-0.1, -0.2])
    return made


def test_the_best_and_the_worst_are_by_reward_and_one_that_failed_or_was_cut_is_neither():
    low, high = episode(-1.0), episode(2.0)
    failed = [episode(-9.0, Ending.INFRASTRUCTURE), episode(9.0, Ending.CONTEXT_FULL)]
    assert best_and_worst([low, *failed, episode(0.5), high]) == [("best", high), ("worst", low)]
    assert best_and_worst([low, *failed]) == [("best", low)]
    assert best_and_worst(failed) == []


def test_a_transcript_says_how_it_went_and_what_was_said():
    shown = episode(0.25)
    shown.explanation = "Right, and short."
    assert list(transcript(shown)) == [
        "reward 0.250, q-7, 1 turns, 2 sampled tokens, ended: answered",
        "[user] Who?",
        "[assistant] Ann.",
        "[judge] Right, and short.",
    ]


def test_tool_calls_are_shown_and_long_messages_are_cut_with_what_is_missing_counted():
    shown = episode(0.0)
    call = {"type": "function", "function": {"name": "read_email", "arguments": '{"message_id": "<1>"}'}}
    shown.messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a" * MAX_MESSAGE_CHARS + "b" * 50},
    ]
    _, said, answer = transcript(shown)
    assert said == r'[assistant] {"name": "read_email", "arguments": "{\"message_id\": \"<1>\"}"}'
    assert "[... 50 characters ...]" in answer
    assert answer.endswith("b" * 50)
