"""The benchmark of overlap and of the rollout client: its simulation against hand-computed runs, and the program itself."""

import subprocess
import sys

import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from scaling.arithmetic import Device, Work, learn_seconds, sample_seconds, step, turn_seconds
from scaling.overlap import Setting, gain, recorded

from grpo.devices.shape import QWEN_MODELS, ModelShape

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


ROUND = ModelShape(layers=1, hidden=10, intermediate=10, heads=1, kv_heads=1, head_dim=10, vocab=0, tied=True)
"""730 weights, 40 bytes of keys and values a token in bfloat16."""
SLOW = Device(flops=1000.0, bandwidth=2000.0, share=0.5, network=8.0, files=100.0)
TWO_TURNS = Work(episodes=8, turns=2, prompt=2, action=3, observation=5, rank=1, places=4, turns_per_second=1.0)


def test_a_turn_reads_the_observation_in_and_samples_token_by_token():
    assert (ROUND.parameters, ROUND.kv_bytes("bfloat16"), TWO_TURNS.tokens) == (730, 40, 18)
    read_in = 2 * 730 * (2 / 2 + 5) / 500  # FLOP of six tokens, by FLOP a second
    alone = 3 * max((2 * 730 + 40 * 9) / 1000, 2 * 730 / 500)
    assert turn_seconds(ROUND, TWO_TURNS, SLOW, 1) == pytest.approx(read_in + alone)
    reading = Device(flops=1e9, bandwidth=2000.0, share=0.5)  # many episodes read the weights once
    assert turn_seconds(ROUND, TWO_TURNS, reading, 4) == pytest.approx(3 * (1460 + 4 * 360) / 1000, rel=1e-3)


def test_episodes_that_find_no_place_wait_for_the_next_wave():
    turn = turn_seconds(ROUND, TWO_TURNS, SLOW, 4)
    found = [sample_seconds(ROUND, TWO_TURNS, SLOW, servers) for servers in (1, 2, 8, 16)]
    one = 2 * turn_seconds(ROUND, TWO_TURNS, SLOW, 1)
    assert found == pytest.approx([2 * 2 * turn, 2 * turn, one, one])


def test_an_update_is_six_operations_a_weight_and_the_sum_of_gradients():
    compute = 8 * 18 * (6 * 730 + 6 * 10 * 18) / 500
    assert learn_seconds(ROUND, TWO_TURNS, SLOW, 1) == pytest.approx(compute)
    # 7 layers of 10 x 10 and rank 1 have 140 weights of 4 bytes; a ring of two sends each once
    assert learn_seconds(ROUND, TWO_TURNS, SLOW, 2) == pytest.approx(compute / 2 + 4 * 140 / 8)


def test_the_gpus_are_divided_so_that_neither_part_waits_long():
    found = step(ROUND, TWO_TURNS, SLOW, 4)
    others = [
        max(sample_seconds(ROUND, TWO_TURNS, SLOW, s), 16.0, learn_seconds(ROUND, TWO_TURNS, SLOW, 4 - s)) + 5.6 * s
        for s in (1, 2, 3)
    ]
    assert found.overlapped == pytest.approx(min(others))
    assert found.client == 8 * 2 / 1.0
    assert found.publish == pytest.approx(4 * 140 * found.servers / 100)


def test_the_documented_table_is_what_the_arithmetic_says():
    table = (
        (ROOT / "docs" / "scale.md").read_text(encoding="utf-8").split("| GPUs | episodes a step |")[1].split("\n\n")[0]
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(rows) == 10
    for gpus, episodes, division, seconds, fullest in rows:
        found = step(QWEN_MODELS["Qwen/Qwen2.5-7B-Instruct"], Work(int(episodes)), Device(), int(gpus))
        shared = gpus == "1"
        assert division == ("one card, in turn" if shared else f"{found.servers} and {found.learners}")
        assert (seconds, fullest) == (f"{found.total if shared else found.overlapped:.1f}", found.fullest)


def test_the_program_says_what_servers_overlap_and_many_episodes_bring():
    few = ["--servers", "2", "--episodes", "16", "--median-seconds", "0.05", "--steps", "3"]
    command = [sys.executable, "scripts/bench_scale", *few]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    assert [line.split()[:3] for line in shown[1:11]] == [
        [str(servers), str(staleness), str(spare)]
        for servers in (1, 2)
        for staleness, spare in ((0, 0), (0, 4), (1, 0), (1, 4), (2, 4))
    ]
    table = [line.split() for line in shown if line.startswith("Qwen/Qwen2.5-7B-Instruct")]
    assert [(row[1], row[2]) for row in table[:3]] == [("1", "128"), ("2", "128"), ("2", "256")]
    assert [row[-1] for row in table[-2:]] == [
        "sample",
        "client",
    ]  # few episodes do not fill 1,000 GPUs, many fill the client
    servers, episodes, turns, share, cpu_ms = shown[-1].split()
    assert (servers, episodes) == ("2", "16")
    assert float(turns) > 0
    assert 0 < float(share.removesuffix("%")) <= 100
    assert float(cpu_ms) > 0


def test_the_program_says_where_envs_are_called_best():
    command = [sys.executable, "scripts/bench_scale", "envs", "--ms", "1", "--episodes", "2"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    rows = [line.split() for line in shown[1:]]
    places = ["loop", "threads", "processes", "auto"]
    assert [row[:5] for row in rows[:8]] == [
        [does, "1", "ms", "2", place] for does in ("waits", "computes") for place in places
    ]
    assert [row[:4] for row in rows[8:]] == [["searches", "mail", "2", place] for place in ("loop", "auto")]
    figures = [row[5:] for row in rows[:8]] + [row[4:] for row in rows[8:]]
    assert all(float(row[0]) > 0 for row in figures)
    assert all(0 < float(row[1].removesuffix("%")) <= 100 for row in figures)
