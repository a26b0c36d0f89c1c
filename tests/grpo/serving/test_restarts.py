"""The only server of a run, which its user restarts: its return is waited for, and not for ever."""

import asyncio
import threading
import time

from grpo.serving.sampler import VllmSampler
from tests.grpo.serving.test_fleet import fleet_of, guess, play, stubs, tokens
from tests.support.policies import ByteChat
from tests.support.policy_server import save_nothing
from tests.support.wait import wait_until


def test_the_only_server_may_be_restarted_by_its_user_mid_episode(tmp_path):
    told = []
    with stubs(1) as (server,):
        sampler = VllmSampler(fleet_of([server]), tmp_path / "one", [ByteChat.END], 64)
        sampler.publish(save_nothing, 0)
        undisturbed = asyncio.run(play(sampler))
        before = len(server.asked)

        def kills(request):
            if len(server.asked) == before + 8:  # in the second turn
                server.stop()
            return guess(request)

        server.sample = kills
        fleet = fleet_of([server], told, patience_seconds=60.0)
        sampler = VllmSampler(fleet, tmp_path / "two", [ByteChat.END], 64)
        sampler.publish(save_nothing, 0)

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
    assert tokens(trajectories) == tokens(undisturbed)
    assert {t.error for t in trajectories} == {""}
    assert told[0].endswith("its episodes wait until it is back, up to 60 s")
    assert told[1:] == [f"the server at {server.url} answers again and is in"]


def test_the_only_server_that_stays_away_is_given_up_in_time_and_let_in_all_the_same(tmp_path):
    with stubs(1) as (server,):
        fleet = fleet_of([server], patience_seconds=0.3)
        sampler = VllmSampler(fleet, tmp_path, [ByteChat.END], 64)
        sampler.publish(save_nothing, 0)
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
