import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.errors import EmailEnvError, ScenarioError
from email_env.scenarios.scenario import DIFFICULTIES, SPLITS, Scenario
from email_env.scenarios.sets import load_scenarios, stored_scenarios
from tests.email_env.mails import mail, question

HUB = {
    "id": 1000001,
    "question": "Which plant?",
    "answer": "The Garza plant.",
    "message_ids": ["<1.2.JavaMail.evans@thyme>"],
    "how_realistic": 0.7,
    "inbox_address": "Daren.Farmer@enron.com",
    "query_date": "2000-05-25",
    "split": "test",
}

texts = st.text(min_size=1).filter(str.strip)
bare_ids = st.from_regex(r"[a-z0-9.@]{1,20}", fullmatch=True)
scenarios = st.builds(
    Scenario,
    scenario_id=texts,
    question=texts,
    answer=st.text(),
    accepted=st.lists(st.text(), max_size=3).map(tuple),
    message_ids=st.lists(bare_ids, max_size=3).map(tuple),
    inbox=bare_ids,
    query_date=st.dates().map(str),
    split=st.sampled_from(SPLITS),
    difficulty=st.sampled_from(DIFFICULTIES),
    kind=st.text(),
    plan=st.lists(st.tuples(st.text(), st.lists(st.text(), max_size=3).map(tuple)), max_size=3).map(tuple),
)


@given(scenarios)
def test_a_scenario_survives_its_json_form(scenario):
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


def test_the_form_of_the_public_question_sets_is_read():
    scenario = Scenario.from_dict(HUB)
    assert (scenario.scenario_id, scenario.inbox) == ("1000001", "daren.farmer@enron.com")
    assert scenario.message_ids == ("1.2.JavaMail.evans@thyme",)
    assert (scenario.split, scenario.difficulty, scenario.plan, scenario.answerable) == ("test", "", (), True)
    assert not Scenario.from_dict(HUB | {"message_ids": []}).answerable


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qestion": "?"}, "Did you mean 'question'"),
        ({"answer": float("nan")}, "answer of a scenario must be a string, got nan"),
        ({"query_date": "25 May"}, "2001-05-14"),
        ({"query_date": "2000-02-31"}, "2000-02-31"),
        ({"split": "dev"}, "'train', 'validation', 'test'"),
        ({"question": " "}, "question"),
        ({"message_ids": "<m1>"}, "message_ids"),
        ({"accepted": [1]}, "accepted"),
        ({"plan": [["search"]]}, "plan"),
        ({"plan": "search"}, "plan"),
        ({"difficulty": "extreme"}, "'easy', 'medium', 'hard'"),
        ({"question": "Who? \ud83d"}, "question of a scenario holds half a character"),
        ({"message_ids": ["\ud83d@x"]}, "message_ids of a scenario holds half a character"),
    ],
)
def test_a_wrong_scenario_is_refused_with_the_value_or_the_right_key(change, words):
    with pytest.raises(ScenarioError, match=words):
        Scenario.from_dict(HUB | change)


def test_missing_keys_are_named():
    with pytest.raises(ScenarioError, match="lacks answer, inbox, query_date; it has id, question"):
        Scenario.from_dict({"id": 1, "question": "?"})


def test_a_file_is_read_in_order_without_blank_lines_and_as_windows_programs_write_it(tmp_path, monkeypatch):
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(HUB).encode() + b"\r\n\r\n" + json.dumps(HUB | {"id": 2}).encode())
    assert [scenario.scenario_id for scenario in load_scenarios(path)] == ["1000001", "2"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load_scenarios("~/questions.jsonl")) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("id,question,answer", r"'id,question,answer' is not JSON \("),
        ("{", r"'{' is not JSON \("),
        ('{"id": ' + "1" * 5_000 + "}", r'\'{"id": 1{53}\' is not JSON \('),
        ("[1]", ""),
        ('{"id": 1}', ""),
        (json.dumps(HUB), ""),
        ("[" * 100_000, ""),
    ],
)
def test_a_bad_line_is_named_by_its_number_and_shown_if_it_is_no_json(tmp_path, line, words):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(HUB) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match=f"line 2: {words}"):
        load_scenarios(path)


def test_errors_are_ours_and_the_stdlibs(tmp_path):
    with pytest.raises(ValueError, match="nowhere") as caught:
        load_scenarios(tmp_path / "nowhere.jsonl")
    assert isinstance(caught.value, EmailEnvError)


def test_readers_of_a_process_share_their_scenarios(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(HUB) + "\n" + json.dumps(HUB | {"id": 2}))
    first, again = load_scenarios(path), load_scenarios(path)
    assert first[0] is again[0]
    assert first[1] is again[1]
    assert first[0] != first[1]
    path.write_text(json.dumps(HUB | {"answer": "None."}))
    assert load_scenarios(path)[0].answer == "None.", "what is shared is what the text says, not where it stands"


def test_scenarios_of_a_database_come_in_their_order_and_by_split(built):
    database = built(mail("m1"), scenarios=[question("b"), question("a", split="test")])
    assert stored_scenarios(database) == [question("b"), question("a", split="test")]
    assert stored_scenarios(database, "test") == [question("a", split="test")]
    assert stored_scenarios(database, "validation") == []
