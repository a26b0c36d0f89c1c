"""Several servers over real sockets: who is asked, what happens when one ends, and when it is asked again."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.player import planned_episodes
from grpo.errors import AdapterError, ServerDiedError, ServerError, ServerStartError
from grpo.serving.adapters import AdapterStore
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.sampler import VllmSampler
from grpo.serving.server import ExternalServer
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from grpo.types import Task
from tests.grpo.serving.test_server import kill_api_server
from tests.support.envs import WORD_ENV
from tests.support.episodes import ids_of, logprobs_of, player
from tests.support.policies import ByteChat
from tests.support.policy_server import PolicyStub, save_nothing
from tests.support.wait import wait_until

CHAT = ByteChat()
WORDS = ("falcon", "maple", "harbor", "quartz")
TASKS = [Task(number, f"train-{word}") for number, word in enumerate(WORDS)]


def guess(request):
    """Three wrong guesses, which differ by seed: all of an episode's turns are asked for."""
    time.sleep(0.01)
    return [*CHAT.encode(f"oak {request['seed'] % 97}"), ByteChat.END]


def ending(server):
    """Guesses as before, but it ends in the second turn."""
    last = len(server.asked) + 8

    def sample(request):
        if len(server.asked) == last:
            server.stop()
        return guess(request)

    return sample


@contextmanager
def stubs(count, sample=guess):
    with ExitStack() as servers:
        yield [servers.enter_context(PolicyStub(sample)) for _ in range(count)]


def fleet_of(servers, told=None, patience_seconds=0.0):
    urls = [ExternalServer(server.url, patience_seconds=patience_seconds) for server in servers]
    for url in urls:
        url.model = "base"
    return Fleet(urls, check_seconds=0.05, on_change=[] if told is None else [told.append])


def sampler_on(fleet, folder):
    """With version 0 published."""
    sampler = VllmSampler(fleet, folder, [ByteChat.END], 64)
    sampler.publish(save_nothing, 0)
    return sampler


async def play(sampler, version=0, size=3, tasks=TASKS, max_tokens=400):
    async with sampler.policy(version) as policy:
        rollout = player(EnvPool(WORD_ENV, {}), CHAT, policy, SamplingParams(1.0, 64), max_tokens)
        return await rollout.all(planned_episodes(tasks, size, "fleet"))


async def ask(fleet, model):
    async with Connection(fleet) as connection:
        await CompletionsPolicy(connection, model, []).sample([1], SamplingParams(), max_tokens=1, seed=0)


def tokens(trajectories):
    return [(t.task, t.sample_index, ids_of(t), logprobs_of(t)) for t in trajectories]


def test_groups_are_spread_evenly_and_every_episode_of_one_is_played_on_one_server(tmp_path):
    with stubs(2) as servers:
        sampler = sampler_on(fleet_of(servers), tmp_path)
        trajectories = asyncio.run(play(sampler))
    assert {t.ending for t in trajectories} == {Ending.MAX_TURNS}
    seen = [Counter(letter_of(request) for request in server.asked) for server in servers]
    assert [dict(counts) for counts in seen] in (  # three episodes of three turns each, two groups a server
        [{"f": 9, "h": 9}, {"m": 9, "q": 9}],
        [{"m": 9, "q": 9}, {"f": 9, "h": 9}],
    )


def letter_of(request):
    return CHAT.decode(request["prompt"]).split("begins with ")[1][0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The tokens of episodes that one server answered from the first to the last."""
    with stubs(1) as servers:
        return tokens(asyncio.run(play(sampler_on(fleet_of(servers), tmp_path_factory.mktemp("one")))))


def test_a_server_that_is_killed_mid_episode_loses_no_token_and_no_episode(tmp_path, undisturbed):
    told = []
    with stubs(2) as (first, second):
        first.sample = ending(first)
        fleet = fleet_of([first, second], told)
        sampler = sampler_on(fleet, tmp_path)
        trajectories = asyncio.run(play(sampler))
        assert len(first.asked) == 8
        assert len(second.asked) >= 36 - 8
        fleet.stop()
    assert tokens(trajectories) == undisturbed
    assert {t.error for t in trajectories} == {""}
    assert len(told) == 1
    assert told[0].startswith(f"the server at {first.url} is out (the policy server at {first.url} does not answer")
    assert told[0].endswith("its episodes go on at the other 1")


def test_a_server_comes_back_when_it_has_the_adapters_that_were_published_meanwhile(tmp_path):
    told = []
    with stubs(2) as servers:
        fleet = fleet_of(servers, told)
        sampler = sampler_on(fleet, tmp_path)
        servers[1].stop()
        sampler.publish(save_nothing, 1)
        assert "/v1/load_lora_adapter did not answer" in told[0]
        asyncio.run(play(sampler, 1))
        assert not servers[1].asked
        servers[1].refuses_adapters = True
        servers[1].start()
        wait_until(lambda: "no room for another adapter" in fleet.members[1].out)
        servers[1].refuses_adapters = False
        wait_until(lambda: not fleet.members[1].out)
        assert set(servers[1].loaded) == set(servers[0].loaded)
        assert told[1:] == [f"the server at {servers[1].url} answers again and is in"]
        asyncio.run(play(sampler, 1))
        assert len(servers[1].asked) == 18
        fleet.stop()


def test_a_version_is_given_out_only_where_every_server_took_it(tmp_path):
    with stubs(3) as servers:
        store = AdapterStore(fleet_of(servers), tmp_path)
        first = store.publish(save_nothing, 0)
        servers[2].refuses_adapters = True
        with pytest.raises(AdapterError, match=r"answered 500: no room for another adapter"):
            store.publish(save_nothing, 1)
        assert [set(server.loaded) for server in servers] == [{first.name}] * 3
        servers[2].refuses_adapters = False
        second = store.publish(save_nothing, 2)
        assert [set(server.loaded) for server in servers] == [{second.name}] * 3


def test_when_none_is_left_the_error_names_each_and_what_happened(tmp_path):
    with stubs(2) as servers:
        fleet = fleet_of(servers)
        sampler = sampler_on(fleet, tmp_path)
        for server in servers:
            server.stop()
        trajectories = asyncio.run(play(sampler, size=1))
        fleet.stop()
    for trajectory in trajectories:
        assert trajectory.ending is Ending.INFRASTRUCTURE
        first, *rest = trajectory.error.splitlines()
        assert first == "none of 2 servers is left:"
        assert sorted(rest) == sorted(
            f"  {s.url}: the server at {s.url} no longer answers; it is not ours to restart" for s in servers
        )


def test_a_server_that_somebody_restarted_gets_its_adapters_again(tmp_path):
    with stubs(1) as (server,):
        fleet = fleet_of([server])
        sampler = sampler_on(fleet, tmp_path)
        loaded = dict(server.loaded)
        server.stop()
        server.start()
        assert {t.error for t in asyncio.run(play(sampler, size=1))} == {""}
        assert server.loaded == loaded
        fleet.stop()


def test_a_model_that_no_server_knows_is_an_error_and_both_stay_in():
    with stubs(2) as servers:
        fleet = fleet_of(servers)
        with pytest.raises(ServerError, match=r"answered 404 for model 'unknown': .*does not exist"):
            asyncio.run(ask(fleet, "unknown"))
        wait_until(lambda: len(fleet.present()) == 2)
        fleet.stop()


def test_a_request_that_ends_every_server_it_meets_ends_with_an_error(tmp_path):
    with stubs(2) as servers:
        for server in servers:

            def dies(request, server=server):
                server.stop()
                server.start()
                time.sleep(0.2)
                return []

            server.sample = dies
        fleet = fleet_of(servers)
        with pytest.raises(ServerError, match="does not answer"):
            asyncio.run(ask(fleet, "base"))
        fleet.stop()


def test_servers_of_different_models_are_refused():
    with stubs(2) as servers:
        given = [ExternalServer(server.url) for server in servers]
        fleet = Fleet(given)
        fleet.wait_ready()
        given[1].wait_ready = lambda _say=None: 0.0  # type: ignore[method-assign]
        given[1].model = "another"
        with pytest.raises(
            ServerStartError, match=r"different models: 'base' at .*, 'another' at .*--served-model-name"
        ):
            fleet.wait_ready()


def test_a_server_that_cannot_be_brought_back_for_any_reason_is_given_up_and_nobody_waits_for_ever():
    with stubs(1) as (server,):
        mine = ExternalServer(server.url, patience_seconds=0.0)
        mine.recover = lambda: Path("/no/such/folder").read_text() == ""  # type: ignore[method-assign]
        fleet = Fleet([mine], check_seconds=3600.0, on_change=[])
        fleet.take_out(fleet.members[0], 0, "it ended")
        wait_until(lambda: fleet.members[0].given_up)
        with pytest.raises(ServerDiedError, match=r"FileNotFoundError: \[Errno 2\] No such file or directory"):
            fleet.least_loaded()
        fleet.stop()  # waits for no further try


def test_the_only_server_may_be_restarted_by_its_user_mid_episode(tmp_path, undisturbed):
    told = []
    with stubs(1) as (server,):
        server.sample = ending(server)
        fleet = fleet_of([server], told, patience_seconds=60.0)
        sampler = sampler_on(fleet, tmp_path)

        def restart():
            wait_until(lambda: "not ours to restart" in fleet.members[0].out)  # it was looked at, in vain
            time.sleep(0.5)  # and who waits for an answer asked for a server
            server.sample = guess
            server.start()

        user = threading.Thread(target=restart)
        user.start()
        trajectories = asyncio.run(play(sampler))
        user.join()
        fleet.stop()
    assert tokens(trajectories) == undisturbed
    assert {t.error for t in trajectories} == {""}
    assert told[0].endswith("its episodes wait until it is back, up to 60 s")
    assert told[1:] == [f"the server at {server.url} answers again and is in"]


def test_the_only_server_that_stays_away_is_given_up_in_time_and_let_in_all_the_same(tmp_path):
    with stubs(1) as (server,):
        fleet = fleet_of([server], patience_seconds=0.3)
        sampler = sampler_on(fleet, tmp_path)
        server.stop()
        began = time.monotonic()
        trajectories = asyncio.run(play(sampler, size=1))
        assert time.monotonic() - began >= 0.3
        assert {t.error for t in trajectories} == {
            f"the server at {server.url} no longer answers; it is not ours to restart (it was waited for 0.3 s)"
        }
        server.start()
        wait_until(fleet.present)
        assert {t.error for t in asyncio.run(play(sampler, size=1))} == {""}
        fleet.stop()


@pytest.mark.vllm
@pytest.mark.timeout(1800)
def test_of_two_real_servers_one_is_killed_and_comes_back_with_the_adapter(
    vllm_server, model_dir, save_random_adapter, tmp_path
):
    options = ServerOptions(dtype=vllm_server.options.dtype, max_model_len=512, kv_cache_gib=0.25)
    with VllmServer(model_dir, tmp_path / "server.log", options) as mortal:
        told = []
        fleet = Fleet([mortal, ExternalServer(vllm_server.url)], on_change=[told.append])
        sampler = VllmSampler(fleet, tmp_path / "adapters", [2], 8)
        sampler.publish(lambda folder: save_random_adapter(folder, 3), 0)

        async def sample():
            async with sampler.policy(0) as policy:
                with policy.session("a group") as session:

                    async def turn():
                        return await session.sample([5, 6, 7], SamplingParams(0.0), max_tokens=8, seed=1)

                    before = await turn()
                    kill_api_server(mortal)
                    elsewhere = await turn()
                with policy.session("another") as session:
                    while len(fleet.present()) < 2:
                        await asyncio.sleep(0.2)
                    return before, elsewhere, await turn()

        before, elsewhere, after = asyncio.run(sample())
        assert before.ids[0] == elsewhere.ids[0] == after.ids[0]
        assert [line.split(" ", 3)[3] for line in told][1:] == [f"{mortal.url} was restarted and is in"]
        assert mortal.restarts_left == 0
        fleet.stop()
