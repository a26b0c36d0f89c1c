"""The benchmark of overlap and of the rollout client: its simulation against hand-computed runs, and the program itself."""

import subprocess
import sys

import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from scaling.overlap import Setting, gain, recorded

SMALL = {"places": 4, "groups": 2, "group_size": 2, "steps": 10, "learn_seconds": 6.0}


def test_without_overlap_sampler_and_learner_wait_for_each_other():
    found = gain(Setting(1, 0, **SMALL), recorded([4.0], 0))
    assert (found.step_seconds, found.stale) == (10.0, 0.0)
    assert found.sampler_idle == pytest.approx(0.6)  # four places, busy for 4 of 10 seconds
    assert found.learner_idle == pytest.approx(0.4)


def test_with_overlap_the_longer_of_the_two_is_all_that_a_step_takes():
    found = gain(Setting(1, 1, **SMALL), recorded([4.0], 0))
    assert found.step_seconds == pytest.approx((4.0 + 10 * 6.0) / 10)  # the first step has nothing to learn from yet
    assert found.learner_idle == pytest.approx(4.0 / 64.0)
    slow = gain(Setting(1, 1, **SMALL), recorded([20.0], 0))
    assert slow.step_seconds == pytest.approx((10 * 20.0 + 6.0) / 10)


def test_a_second_server_halves_the_rollout_where_places_are_few():
    few = SMALL | {"places": 2}
    one, two = (gain(Setting(servers, 0, **few), recorded([4.0], 0)) for servers in (1, 2))
    assert (one.step_seconds, two.step_seconds) == (8.0 + 6.0, 4.0 + 6.0)


def test_a_group_to_spare_keeps_a_long_tail_out_of_the_step():
    latencies = iter([1.0, 1.0, 50.0, 1.0, 1.0, 1.0, *[1.0] * 100])
    found = gain(Setting(1, 0, 1, **SMALL | {"places": 100, "steps": 1}), lambda: next(latencies))
    assert (found.step_seconds, found.stale) == (1.0 + 6.0, 1.0)


@pytest.mark.timeout(240)
def test_the_program_says_what_servers_overlap_and_many_episodes_bring():
    few = ["--servers", "2", "--episodes", "16", "--median-seconds", "0.05", "--steps", "3"]
    command = [sys.executable, "scripts/bench_scale", *few]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    assert [line.split()[:3] for line in shown[1:11]] == [
        [str(servers), str(staleness), str(spare)]
        for servers in (1, 2)
        for staleness, spare in ((0, 0), (0, 4), (1, 0), (1, 4), (2, 4))
    ]
    servers, episodes, turns, share, cpu_ms = shown[-1].split()
    assert (servers, episodes) == ("2", "16")
    assert float(turns) > 0
    assert 0 < float(share.removesuffix("%")) <= 100
    assert float(cpu_ms) > 0
