"""openenv:URL with openenv's own server: the env that `openenv init` writes (typed, one session), and one with tools."""

import os
import re
import socket
import subprocess
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from tests import ROOT
from tests.interop.commands import call, evaluated, trained
from tests.interop.interpreters import needs, program, version
from tests.support.wait import wait_until

pytestmark = needs("openenv")


@contextmanager
def serving(*command, folder):
    """The URL at which a command serves, to which a port is given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen([program("openenv"), *command, str(port)], cwd=folder, env=clean)
    url = f"http://127.0.0.1:{port}"

    def is_up():
        with (
            suppress(OSError),
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health") as page,
        ):
            return page.status == 200
        return False

    try:
        wait_until(is_up, process=process, seconds=300)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openenv")
    path = f"{os.path.dirname(program('openenv'))}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    subprocess.run([program("openenv", "openenv"), "init", "echo_env"], cwd=folder, env=clean, check=True, timeout=600)
    with serving("-m", "uvicorn", "server.app:app", "--port", folder=folder / "echo_env") as url:
        yield url


def test_the_env_of_openenv_init_is_evaluated_and_trained_on(echo, tmp_path):
    """It never ends by itself, and allows one session: five episodes at once wait for each other."""
    assert version("openenv", "openenv") == "0.10.0"
    env = ["--env", f"openenv:{echo}", "--env-kwargs", '{"max_turns": 2}']
    replies = iter(["abc", "much longer than that"] * 5)

    def play(messages, tools):
        (act,) = tools
        assert list(act["function"]["parameters"]["properties"]) == ["message"]
        return {"calls": [("act", {"message": next(replies)})]}

    rows = evaluated(tmp_path, play, *env, "--limit", "5", "--concurrency", "5")
    assert [(row["reward"], row["turns"]) for row in rows] == [(pytest.approx(1.3), 2)] * 5
    steps = trained(tmp_path, lambda _prompt, seed: call("act", message="x" * (1 + seed % 9)), *env)
    assert [step["step"] for step in steps] == [1, 2]
    assert all((step["episodes/failed"], step["env/calls"]) == (0.0, 2.0) for step in steps)
    assert all(0.2 <= step["reward/mean"] <= 1.8 for step in steps)
    assert any(step["groups/used"] == 1.0 and step["loss/grad_norm"] > 0.0 for step in steps)


def test_an_env_of_tools_is_evaluated_and_trained_on(tmp_path):
    with serving(str(ROOT / "tests" / "interop" / "openenv_sums.py"), folder=tmp_path) as url:
        env = ["--env", f"openenv:{url}"]

        def play(messages, tools):
            assert [tool["function"]["name"] for tool in tools] == ["add"]
            (asked,) = (message["content"] for message in messages if message["role"] == "user")
            wanted = int(asked.split()[-1].rstrip("?"))
            first = not any(message["role"] == "tool" for message in messages)
            return {"calls": [("add", {"a": 0, "b": 0} if first else {"a": wanted - 5, "b": 5})]}

        rows = evaluated(tmp_path, play, *env, "--limit", "4", "--concurrency", "4")
        assert [(row["reward"], row["turns"]) for row in rows] == [(pytest.approx(0.9), 2)] * 4

        def says(prompt, seed):
            if (asked := re.search(r"numbers make (\d+)", prompt)) is None:  # whether the server is well
                return "It is."
            return call("add", a=int(asked[1]) - 5, b=5) if seed % 2 else "I give up."

        steps = trained(tmp_path, says, *env)
        assert [step["step"] for step in steps] == [1, 2]
        assert all(step["episodes/failed"] == 0.0 for step in steps)
        assert all(step["reward/mean"] in (0.0, 0.25, 0.5, 0.75, 1.0) for step in steps)
        assert any(step["groups/used"] == 1.0 and step["loss/grad_norm"] > 0.0 for step in steps)
