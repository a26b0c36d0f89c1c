from base64 import b64encode

import pytest

from judges.common.secrets import blank_secrets, split_users, without_credentials, without_secrets, without_users
from judges.llm.client import JudgeClient


def test_parameters_with_a_secret_by_name_are_left_out_at_any_depth_and_numbers_are_none():
    kept = {"temperature": 0.5, "max_tokens": 77, "input_cost_per_token": 0.1, "reasoning_effort": "low", "stop": ["x"]}
    secret = {
        "api_key": "a",
        "azure_ad_token": "b",
        "aws_secret_access_key": "c",
        "vertex_credentials": "d",
        "extra_headers": {"Authorization": "e"},
        "client_secret": "f",
    }
    assert without_secrets({**kept, **secret}) == kept
    assert without_secrets({"extra_body": {"top_k": 5, "X-Api-Key": "g"}}) == {"extra_body": {"top_k": 5}}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://me:pass@judge.example/v1?key=abc#x", "https://judge.example/v1"),
    ],
)
def test_a_url_is_shown_without_what_lets_one_in(url, shown):
    assert without_credentials(url) == shown


def test_values_are_blanked_wherever_they_stand_and_short_words_are_not(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("OTHER_TOKEN", "none")
    text = "key=0123456789abcdef, argument=zyxwvutsrq, none"
    assert blank_secrets(text, "zyxwvutsrq", None) == "key=[key], argument=[key], none"


def test_what_an_answer_depends_on_holds_model_url_and_parameters_and_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:word@host:1/v1")
    judge = JudgeClient("openai/some", api_key="k1", extra_litellm_params={"api_key": "k2", "max_tokens": 5})
    expected = {"model": "openai/some", "api_base": "http://host:1/v1", "params": {"max_tokens": 5}}
    assert judge.identity() == expected
    assert (
        JudgeClient("some", api_base="http://host:1/v1", extra_litellm_params={"max_tokens": 5}).identity() == expected
    )
    assert JudgeClient("gpt-4.1").identity() == JudgeClient("openai/gpt-4.1").identity()


def test_two_servers_that_a_variable_names_are_two_judges(monkeypatch):
    for model, name in (("hosted_vllm/m", "HOSTED_VLLM_API_BASE"), ("ollama_chat/m", "OLLAMA_API_BASE")):
        assert JudgeClient(model).identity()["api_base"] is None
        monkeypatch.setenv(name, "http://user:word@one:1/v1")
        assert JudgeClient(model).identity()["api_base"] == "http://one:1/v1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("openai:gpt@4@https://me:pa@ss-w0rd@host:8/v1 fails", "openai:gpt@4@https://host:8/v1 fails"),
        ("http://me@one/a and http://:pw@two/b", "http://one/a and http://two/b"),
        ("http://one/a@b, write to me@two.com", "http://one/a@b, write to me@two.com"),
    ],
)
def test_urls_in_a_text_lose_user_and_password(text, shown):
    assert without_users(text) == shown


@pytest.mark.parametrize(
    ("url", "bare", "said"),
    [
        ("http://me:p%40ss@host:8/v1?x=1", "http://host:8/v1?x=1", "me:p@ss"),
        ("https://token@host/v1", "https://host/v1", "token"),
        ("http://host:8/v1/a@b", "http://host:8/v1/a@b", None),
    ],
)
def test_user_and_password_of_a_url_go_into_a_header(url, bare, said):
    header = {} if said is None else {"Authorization": "Basic " + b64encode(said.encode()).decode()}
    assert split_users(url) == (bare, header)
