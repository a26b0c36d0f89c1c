"""The second and last turn of a question. What `ask` does with cache, calls and cost stands in test_session."""

import pytest

from judges import MalformedVerdict
from judges.llm.ask import Question, repair_turn
from judges.llm.prompt_text import count_message_tokens

MESSAGES = [{"role": "user", "content": "Score kqz and bnt."}]


def question(max_prompt_tokens=None):
    return Question(MESSAGES, {}, len, "one entry for each of the ids kqz, bnt", "2 trajectories", max_prompt_tokens)


def test_the_repair_turn_shows_the_answer_and_the_mistake_and_stays_short():
    turn = repair_turn(question(), "x" * 100_000, MalformedVerdict("no entry for the ids: bnt"))
    assert [message["role"] for message in turn] == ["assistant", "user"]
    assert turn[0]["content"] == "x" * 4000
    assert "no entry for the ids: bnt" in turn[1]["content"]
    assert "kqz, bnt" in turn[1]["content"]
    assert repair_turn(question(), "", MalformedVerdict("the answer is empty"))[0]["content"] == "(empty)"


@pytest.mark.parametrize(("max_prompt_tokens", "quoted"), [(10_000, "x" * 4000), (900, "x" * 2000), (10, "(empty)")])
def test_the_repair_turn_quotes_as_much_as_the_prompt_leaves_room_for(max_prompt_tokens, quoted):
    turn = repair_turn(question(max_prompt_tokens), "x" * 100_000, MalformedVerdict("no entry for the ids: bnt"))
    assert turn[0]["content"] == quoted
    if quoted != "(empty)":
        assert count_message_tokens([*MESSAGES, *turn]) <= max_prompt_tokens
