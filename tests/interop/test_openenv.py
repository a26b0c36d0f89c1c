"""OpenEnv's client plays our server."""

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.interop.interpreters import needs, program, ran, version
from tests.support.scripted import scripted, written
from tests.support.wait import wait_until

pytestmark = needs("openenv")


@contextlib.contextmanager
def serving(folder, env_kwargs='{"split": "test"}', **variables):
    """`email-env-server` on a free port; gives its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program("openenv", "email-env-server"), "--env-kwargs", env_kwargs, "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with open(folder / "server.txt", "w+") as log:
        server = subprocess.Popen(command, cwd=folder, env=os.environ | variables, stdout=log, stderr=log)
        try:
            told = (folder / "server.txt").read_text
            wait_until(lambda: _answers(url), seconds=300, every=0.5, process=server, told=told)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=30)


def _answers(url):
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def seen_by_client(url, episodes, folder):
    """What OpenEnv's client saw of the episodes."""
    client = [program("openenv"), Path(__file__).with_name("openenv_client.py"), url]
    return json.loads(ran([*client, written(episodes, folder / "episodes.json")], folder).splitlines()[-1])


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Every policy's episodes of all test questions, and what OpenEnv's client saw."""
    folder = tmp_path_factory.mktemp("openenv")
    episodes = list(scripted())
    with serving(folder) as url:
        return episodes, seen_by_client(url, episodes, folder)


def test_this_version_was_tested():
    assert version("openenv", "openenv") == "0.10.0"


def test_the_client_gets_gymnasiums_rewards_to_the_digit(played):
    episodes, seen = played
    assert len(episodes) > 100
    assert [found["reward"] for found in seen["episodes"]] == [episode.reward for episode in episodes]
    assert [found["ending"] for found in seen["episodes"]] == [episode.ending for episode in episodes]


def test_an_episode_is_frozen_at_its_end_and_the_state_tells_of_it(played):
    episodes, seen = played
    for episode, found in zip(episodes, seen["episodes"], strict=True):
        assert found["late"] == [0.0, True]
        state = {name: found["state"][name] for name in ("episode_id", "step_count", "reward", "ending")}
        assert state == {
            "episode_id": episode.scenario_id, "step_count": len(episode.actions), "reward": episode.reward,
            "ending": episode.ending,
        }  # fmt: skip


def test_what_the_env_does_not_know_is_refused_by_name_and_a_bad_turn_is_an_observation(played):
    unknown, nameless = played[1]["errors"]
    assert "'scenario_id'" in unknown
    assert "got 'scenario'" in unknown
    assert "No scenario 'nope' in split 'test'" in nameless
    call, other = played[1]["objects"]
    assert call["error"] == "bad_args"
    assert "has no argument 'page'" in call["messages"][0]["content"]
    assert other["error"] == "bad_json"


def test_an_episode_that_the_env_cuts_is_done_and_truncated_beside_the_web_page(tmp_path):
    episodes = list(scripted(("random",), limit=10, max_turns=1))
    assert {"terminated", "truncated"} == {episode.ending for episode in episodes}
    with serving(tmp_path, '{"split": "test", "max_turns": 1}', ENABLE_WEB_INTERFACE="true") as url:
        seen = seen_by_client(url, episodes, tmp_path)["episodes"]
        page = httpx.get(f"{url}/web/", follow_redirects=True, timeout=60)
        assert (page.status_code, "message" in page.text) == (200, True)
    assert [(found["reward"], found["ending"]) for found in seen] == [(e.reward, e.ending) for e in episodes]
