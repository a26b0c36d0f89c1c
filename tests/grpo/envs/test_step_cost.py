"""What a step is measured to cost, and where an env of such a cost is called."""

import time

import pytest

from grpo.envs.step_cost import BOUND_SECONDS, Meter, Place, StepCost
from tests.support.machine import needs_waits_told


def costs(*steps):
    cost = StepCost()
    for seconds, computing in steps:
        cost.add(seconds, computing)
    return cost


@pytest.mark.parametrize(
    ("steps", "processes", "place"),
    [
        ([], 4, None),
        ([(0.0003, 0.0003)], 4, Place.LOOP),
        ([(0.2, 0.001)], 4, None),  # it may have loaded something: two more are awaited
        ([(0.2, 0.1), (0.0003, 0.0003), (0.0003, 0.0003)], 4, Place.LOOP),
        ([(0.2, 0.001)] * 3, 4, Place.THREADS),
        ([(0.05, 0.05)] * 3, 4, Place.PROCESSES),
        ([(0.05, 0.05)] * 3, 1, Place.PROCESSES),  # the loop goes on, if nothing else
        ([(0.2, 0.02)] * 3, 4, Place.THREADS),  # 50 a second in threads, 20 in four processes
        ([(0.2, 0.02)] * 3, 16, Place.PROCESSES),  # 50 against 80
        ([(0.001, 0.001)] * 9 + [(0.2, 0.001)], 4, Place.THREADS),  # the mean counts: one in ten waits
    ],
)
def test_the_place_of_an_env_follows_from_what_its_steps_take(steps, processes, place):
    assert costs(*steps).place(processes) is place


def test_an_env_moves_back_only_where_that_is_clearly_better():
    near = costs(*[(0.8 * BOUND_SECONDS, 0.0)] * 3)
    assert near.place(4) is Place.LOOP
    assert near.place(4, Place.THREADS) is Place.THREADS
    assert costs(*[(0.4 * BOUND_SECONDS, 0.0)] * 3).place(4, Place.THREADS) is Place.LOOP
    even = costs(*[(0.1, 0.03)] * 3)
    assert even.place(4) is Place.PROCESSES
    assert even.place(4, Place.THREADS) is Place.THREADS
    assert even.place(4, Place.PROCESSES) is Place.PROCESSES


def mostly_computes():
    """Whether computing for ten milliseconds is measured as such."""
    meter = Meter()
    while meter.read()[1] < 0.01:
        pass
    seconds, computing = meter.read()
    return 0.01 <= computing <= seconds < 2 * computing


@needs_waits_told
def test_a_step_that_computes_is_told_from_one_that_waits_on_a_busy_machine_too():
    assert any(mostly_computes() for _ in range(50))  # the host may take the core away, which nobody here can see
    meter = Meter()
    time.sleep(0.05)
    seconds, computing = meter.read()
    assert seconds > 2 * computing
