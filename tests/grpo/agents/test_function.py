"""Door 1, a Python function: what it is given, what it may return, how it may fail, and what it can never see."""

import inspect
import json
import queue
import tempfile
import threading
import types
import typing

import pydantic
import pytest

from grpo.agents.typed_tools import typed_tools
from grpo.types import AgentTask as Task
from tests.support.agents import seen
from tests.support.evaluations import asked, evaluated, rows, run
from tests.support.model_server import in_order

HERE = "tests.support.agents"


def played(tmp_path, name, *arguments, **env_kwargs):
    """The rows and the result of a function of `tests.support.agents`."""
    return evaluated(tmp_path / "run", "--agent", f"{HERE}:{name}", *arguments, **env_kwargs)


def test_what_a_function_calls_and_returns_is_scored(tmp_path):
    found, _ = played(tmp_path, "by_tool", count=4)
    assert [row["answer"] for row in found] == ["0", "2", "4", "6"]
    assert [row["correct"] for row in found] == [True, False, True, False]
    assert {row["ending"] for row in found} == {"answered"}
    assert [row["implicit"] for row in found] == [False] * 4
    assert [row["sources"] for row in found] == [["s1"]] * 4


def test_prose_counts_as_an_answer_and_is_called_implicit(tmp_path):
    found, _ = played(tmp_path, "looking", count=4)
    assert [row["correct"] for row in found] == [False, True, False, True]
    assert [row["implicit"] for row in found] == [True] * 4


def test_an_async_function_may_return_an_answer_with_sources(tmp_path):
    found, _ = played(tmp_path, "with_sources", count=2)
    assert [(row["answer"], row["sources"]) for row in found] == [("0", ["a", "b"]), ("2", ["a", "b"])]


@pytest.mark.parametrize(
    ("name", "ending", "error"),
    [
        ("silent", "no_answer", ""),
        ("crashing", "agent_crash", "LookupError: no idea (agents.py:"),
        ("leaving", "agent_crash", "SystemExit: 3"),
        ("interrupting", "agent_crash", "RuntimeError: the agent raised KeyboardInterrupt"),
        ("giving_up", "agent_crash", "TimeoutError (agents.py:"),
        ("of_no_exception", "agent_crash", "Odd: neither error nor exit (agents.py:"),
        ("leaving_async", "agent_crash", "SystemExit: 3"),
        ("interrupting_async", "agent_crash", "RuntimeError: the agent raised KeyboardInterrupt"),
        ("chatty", "agent_crash", "AttributeError: 'NoneType' object has no attribute 'base_url' (agents.py:"),
        ("of_odd_type", "agent_crash", "the agent returned int '42'; return str, Answer or None"),
        ("overflowing", "agent_crash", "maximum context length"),
    ],
)
def test_every_way_to_fail_has_its_name_and_counts_as_not_correct(tmp_path, name, ending, error):
    found, shown = played(tmp_path, name, count=4)
    assert [row["ending"] for row in found] == [ending] * 4
    assert all(error in row["error"] for row in found)
    assert [row["correct"] for row in found] == [False] * 4
    assert shown.exit_code == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metrics"]["answer/correct"]["mean"] == 0.0
    assert summary["episodes"] == 4


@pytest.mark.parametrize("name", ["sleeping", "sleeping_async"])
def test_an_agent_that_does_not_end_is_timed_out(tmp_path, name):
    found, _ = played(tmp_path, name, "--timeout", "0.3", count=4)
    assert [row["ending"] for row in found] == ["timeout"] * 4
    assert found[0]["error"] == "no answer within 0.3 s"


def test_an_agent_that_goes_on_after_its_answer_keeps_it(tmp_path):
    found, _ = played(tmp_path, "going_on", "--timeout", "2", count=1)
    assert (found[0]["ending"], found[0]["answer"]) == ("answered", "0")
    assert found[0]["error"] == "it was still running after 2 s"


def find_tool(properties, *required):
    """A tool of these properties; what it is called with comes back."""
    requests = queue.SimpleQueue()
    function = {"name": "find", "parameters": {"type": "object", "properties": properties, "required": required}}
    (find,) = typed_tools([{"type": "function", "function": function}], requests.put, "token")

    def serve():
        while True:
            token, name, arguments, reply = requests.get()
            reply((True, json.dumps([token, name, arguments])))

    threading.Thread(target=serve, daemon=True).start()
    return find


def test_tools_whose_words_are_no_python_are_functions_all_the_same():
    properties = {
        "from": {"type": "string", "description": "Who."}, "sent-after": {"enum": ["now", None]}, "2nd": True,
        "kind": {"enum": [[1], {"a": 1}]}, "either": {"type": ["string", "null"]}, "items": {"type": "array", "items": [{}]},
    }  # fmt: skip
    find = find_tool(properties, "from")
    names = {name: parameter.default for name, parameter in inspect.signature(find).parameters.items()}
    optional = dict.fromkeys(["sent_after", "_2nd", "kind", "either", "items"])
    assert names == {"from_": inspect.Parameter.empty} | optional
    assert "    from_: Who." in find.__doc__

    said = json.loads(find("ann", None, "b", kind=[1]))
    assert said == ["token", "find", {"from": "ann", "2nd": "b", "kind": [1]}]
    assert json.loads(find(*"abcdefg"))[2]["argument_7"] == "g"


def test_what_a_schema_says_of_an_argument_reaches_the_frameworks_that_read_signatures():
    """Frameworks build their schema with pydantic: what it does not say, the model cannot know."""
    dates = {"type": "object", "properties": {"after": {"type": "string"}, "max-days": {"type": "integer"}}}
    properties = {
        "dates": dates | {"required": ["after"]},
        "who": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "size": {"type": ["integer", "null"]},
        "rest": dates | {"additionalProperties": True},
        "nothing": {"type": "null"},
    }
    find = find_tool(properties, "dates")

    def read(name):
        schema = pydantic.TypeAdapter(inspect.signature(find).parameters[name].annotation).json_schema()
        return {key: value for key, value in schema.items() if key != "title"}

    assert read("dates") == {
        "type": "object",
        "properties": {
            "after": {"type": "string", "title": "After"},
            "max-days": {"type": "integer", "title": "Max-Days"},
        },
        "required": ["after"],
    }
    numbers = {"type": "array", "items": {"type": "integer"}}
    assert read("who") == {"anyOf": [{"type": "string"}, numbers, {"type": "null"}]}
    assert read("size") == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert read("rest")["anyOf"][0] == {"type": "object", "additionalProperties": True}
    assert read("nothing") == {"type": "null"}


def test_none_is_an_argument_where_the_tool_insists_on_one():
    find = find_tool({"until": {"type": ["string", "null"]}, "limit": {"type": ["integer", "null"]}}, "until")
    assert json.loads(find(until=None, limit=None))[2] == {"until": None}


def test_last_words_are_no_action_of_a_plain_env(tmp_path):
    arguments = ("--agent", f"{HERE}:one_step_down", "--limit", "1")
    for place in ("0", "1"):
        out = ("--env-workers", place, "--out", str(tmp_path / place))
        run(*arguments, *out, env="FrozenLake-v1", is_slippery=False)
        (row,) = rows(tmp_path / place)
        assert (row["turns"], row["metrics"]["length"], row["ending"]) == (1, 1.0, "no_answer")
        assert row["metrics"]["invalid_calls"] == 0.0


def test_results_stay_together_where_an_agent_changes_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    shown = run("--agent", f"{HERE}:moving", "--out", "run", count=1)
    assert shown.exit_code == 0, shown.output
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["episodes"] == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_wrong_argument_is_a_text_and_not_an_exception(tmp_path):
    found, _ = played(tmp_path, "careless", count=1)
    assert found[0]["answer"] == " / ".join(["Error: number must be a whole number."] * 2)
    assert found[0]["error_codes"] == {"bad_args": 2}


def test_equal_failures_are_counted_together_whatever_the_address_of_an_object(tmp_path):
    run("--agent", f"{HERE}:yielding", "--out", str(tmp_path), count=4)
    (told,) = json.loads((tmp_path / "summary.json").read_text())["errors"]
    assert told["count"] == 4
    assert told["error"] == (
        "TypeError: the agent returned generator '<generator object yielding>'; return str, Answer or None"
    )


def test_tools_have_real_signatures_and_docstrings(tmp_path):
    run("--agent", f"{HERE}:looking", "--limit", "1", "--out", str(tmp_path), env="EmailSearch-v0")
    search, read, answer = seen["tools"]
    assert isinstance(seen["task"], Task)
    assert str(inspect.signature(search)) == (
        "(keywords: list[str] | None = None, from_addr: str | None = None, to_addr: str | None = None, "
        "sent_after: str | None = None, sent_before: str | None = None, max_results: int | None = None, "
        "offset: int | None = None) -> str"
    )
    assert typing.get_type_hints(answer) == {"answer": str, "sources": list[str], "return": str}
    assert (search.__name__, read.__name__, answer.__name__) == ("search_inbox", "read_email", "return_final_answer")
    assert "Args:\n    keywords: " in search.__doc__
    assert inspect.getsource(search)


OURS = {"email_env", "grpo", "judges", "tests"}


def reachable(roots, depth=12):
    """All that attributes, items, closures, defaults and our modules' globals lead to; not modules, classes, builtins.

    Globals of other packages are left out: which of them are loaded depends on the tests that ran before.
    """
    found, edge = {}, list(roots)
    for _ in range(depth):
        following = []
        for value in edge:
            if id(value) in found or inspect.ismodule(value) or isinstance(value, type):
                continue
            found[id(value)] = value
            if isinstance(value, dict):
                following += [*value.keys(), *(v for k, v in value.items() if k != "__builtins__")]
            elif isinstance(value, (list, tuple, set, frozenset)):
                following += list(value)
            if inspect.isfunction(value):
                following += [cell.cell_contents for cell in value.__closure__ or ()]
                following += [value.__defaults__, value.__kwdefaults__, value.__dict__]
                if value.__module__.partition(".")[0] in OURS:
                    following.append(value.__globals__)
            elif not isinstance(value, (str, bytes, int, float, type(None), dict, list, tuple)):
                names = [name for name in dir(value) if not name.startswith("__")] + [
                    "__dict__",
                    "__self__",
                    "__func__",
                ]
                attributes = (getattr(value, name, None) for name in names)
                following += [each for each in attributes if not isinstance(each, types.BuiltinMethodType)]
        edge = following
    return list(found.values())


def test_nothing_an_agent_is_given_leads_to_answers_sources_or_the_database(tmp_path):
    import gymnasium

    import email_env  # noqa: F401
    from email_env.scenarios.scenario import Scenario

    hello = in_order({"content": "hello"})
    (row,), _, shown = asked(tmp_path, hello, "looking", "--limit", "1", env="EmailSearch-v0")
    assert shown.exit_code == 0, shown.output
    env = gymnasium.make("EmailSearch-v0", split="test").unwrapped
    scenario = env.catalog.of("test")[row["scenario_id"]]
    values = reachable([seen["task"], seen["tools"], seen["model"]])
    assert len(values) > 100, "the search went nowhere"
    names = {type(value).__name__ for value in values}
    assert not names & {
        "Episode",
        "EmailSearchEnv",
        "Scenario",
        "Catalog",
        "MailDatabase",
        "OwnThread",
        "EnvThread",
        "Toolbox",
    }
    assert not any(isinstance(value, Scenario) for value in values)
    texts = [value for value in values if isinstance(value, str)]
    secrets = [str(env.database.path), scenario.scenario_id, *scenario.message_ids, scenario.answer]
    assert [text for text in texts for secret in secrets if secret in text] == []


def test_what_a_function_prints_stays_out_of_the_json(tmp_path):
    _, shown = played(tmp_path, "talking", "--json", count=2)
    assert json.loads(shown.stdout)["episodes"] == 2
    assert "a line of the agent's own" in shown.stderr
