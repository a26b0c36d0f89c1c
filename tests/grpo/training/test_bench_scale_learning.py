"""The benchmark of staleness: its env and its sums by hand, and one run against a real vLLM server."""

import sys

import gymnasium
import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from scaling.staleness import Learned, command, difference, learn

from grpo.serving.fleet import Fleet
from grpo.serving.server import ExternalServer


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("Bear, boat and bell", 0.75),
        ("bear boat bell", 1.0),
        ("bear bear bear", 1 / 3),
        ("bear", 1 / 3),
        ("b b b", 0.0),
        ("The sea is blue.", 0.25),
        ("", 0.0),
    ],
)
def test_words_are_worth_what_of_them_is_right(text, reward):
    env = gymnasium.make("scaling.words:Words-v0")
    _, info = env.reset(seed=0, options={"scenario_id": "b"})
    assert "begin with the letter b" in info["messages"][0]["content"]
    _, got, terminated, truncated, _ = env.step(text)
    assert (got, terminated, truncated) == (pytest.approx(reward), True, False)


def test_runs_are_compared_seed_by_seed():
    def run(staleness, seed, after):
        return Learned(staleness, seed, 0.1, after, after, float(staleness), 1.0)

    afters = [(0.5, 0.4), (0.7, 0.8), (0.6, 0.6), (0.2, 0.4), (0.5, 0.3)]
    runs = [run(staleness, seed, pair[staleness]) for seed, pair in enumerate(afters) for staleness in (0, 1)]
    found = difference(runs, 1)
    assert found.mean == pytest.approx(0.0)
    spread = (0.1**2 + 0.1**2 + 0.2**2 + 0.2**2) / 4
    assert found.high == pytest.approx(2.776445 * (spread / 5) ** 0.5, rel=1e-5)  # t of four degrees of freedom


def test_the_runs_differ_in_staleness_and_seed_alone(tmp_path):
    fleet = Fleet([ExternalServer("http://a:1")])
    one, other = (command(staleness, seed, 4, fleet, tmp_path) for staleness, seed in ((0, 1), (1, 2)))
    assert [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]] == [("1", "2"), ("0", "1")]
    assert one[one.index("--server") + 1] == "http://a:1"


@pytest.mark.vllm
def test_a_real_run_with_staleness_is_read(vllm_server, tmp_path):
    fleet = Fleet([ExternalServer(vllm_server.url)])
    short = ("--group-size", "4", "--groups-per-step", "2", "--eval-scenarios", "2", "--set", "eval.samples=2")
    found = learn(1, 0, 3, fleet, tmp_path / "run", (*short, "--threads", "1"))
    assert (found.staleness, found.seed) == (1, 0)
    assert 0.0 <= found.before <= 1.0
    assert 0.0 <= found.after <= 1.0
    assert 0.0 <= found.last <= 1.0
    assert found.age == pytest.approx(2 / 3, abs=0.34)  # the first step has the newest policy, the others one older
    assert found.step_seconds > 0.0
