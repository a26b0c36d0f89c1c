"""The benchmark of learning: all arms on a tiny model against a small real server, its table."""

import json
import runpy
from functools import partial
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.episodes.record import read_episodes
from judges.common.files import read_jsonl
from tests import ROOT
from tests.support.envs import LETTER_ENV
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch
PLAYED = ["imitation", "grpo", "cold"]
RECIPE = """
threads = 1
dtype = "float32"
[rollout]
groups_per_step = 2
group_size = 2
max_turn_tokens = 8
max_tokens = 400
[loss]
negative_weight = 0.0
invalid_call_weight = 0.5
max_gap = 5.0
[optimizer]
learning_rate = 1e-2
updates_per_step = 2
[warm_start]
steps = 3
batch = 2
learning_rate = 3e-2
[eval]
scenarios = 1
"""


@pytest.fixture(scope="module")
def bench():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "bench_learning")))


@pytest.fixture
def measure(bench, tmp_path):
    """Measures arms into ``out``, on a tiny model; the run ``stopped`` was stopped after its first step."""
    (tmp_path / "recipe.toml").write_text(RECIPE)
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:

        def run(*arms, stopped, steps=("2",), more=()):
            def play(arm, config, run):
                played.append(run.name)
                if run.name == stopped:
                    bench.play_here(arm, config.model_copy(update={"steps": 1}), run)
                bench.play_here(arm, config, run)

            played = []
            model = ("--set", f"server.urls={json.dumps([server.url])}", "--set", f"model={tmp_path / 'model'}")
            command = [str(tmp_path / "out"), "--env", LETTER_ENV, "--recipe", str(tmp_path / "recipe.toml"), *model]
            lengths = ["--steps", *steps, "--expert", "oracle"]
            bench.main([*command, *lengths, "--arms", *arms, *more], play)
            return played

        yield run


def test_every_arm_goes_on_from_one_warm_start_and_what_is_there_is_not_played_again(measure, tmp_path, capsys):
    folder, run = tmp_path / "out", partial(measure, stopped="imitation-seed-0")
    assert run(*PLAYED, steps=("2", "grpo=1")) == ["warm-seed-0", *(f"{arm}-seed-0" for arm in PLAYED)]
    assert run("grpo", steps=("1",), more=("--seeds", "0", "1")) == ["warm-seed-1", "grpo-seed-1"]
    with pytest.raises(SystemExit, match=r"grpo-seed-0 is of other settings:\n  steps: 1 -> 3\nChoose another"):
        run("grpo", steps=("3",))
    with pytest.raises(SystemExit, match=r"warm-seed-0 is of other settings:\n  lora\.alpha: 32 -> 8"):
        run("grpo", more=("--set", "lora.alpha=8"))

    for arm in PLAYED:
        records = read_jsonl(folder / f"{arm}-seed-0" / "metrics.jsonl")
        steps = [1] if arm == "grpo" else [1, 2]
        assert [record["step"] for record in records] == steps, "the one that was stopped went on"
        begun = json.loads((folder / f"{arm}-seed-0" / "config.json").read_text())["init_adapter"]
        assert begun == (None if arm == "cold" else str(folder / "warm-seed-0"))
    (imitated,) = {
        record["tokens/imitated"] for record in read_jsonl(folder / "imitation-seed-0" / "metrics.jsonl")[:1]
    }
    assert imitated > 0
    assert not (folder / "imitation-seed-0" / "trajectories").exists()

    text = (folder / "table.md").read_text()
    assert text in capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert [row[:3] for row in rows[2:]] == [
        ["imitation", "0", "2"],
        *(["grpo", seed, "1"] for seed in "01"),
        ["cold", "0", "2"],
    ]
    (found,) = (dict(zip(rows[0], row, strict=True)) for row in rows if row[:2] == ["grpo", "1"])
    (record,) = read_jsonl(folder / "grpo-seed-1" / "metrics.jsonl")
    assert found["CPU seconds"] == f"{record['time/cpu']:.0f}"

    def rewards(run, label):
        episodes = read_episodes(folder / run / "eval" / f"{label}.jsonl")
        return {episode.task.key: episode.reward for episode in episodes}

    def mean(values):
        return sum(values) / len(values)

    after = rewards("grpo-seed-1", "after-greedy")
    assert found["temperature 1"] == f"{mean(rewards('grpo-seed-1', 'after-sampled').values()):.3f}"
    assert found["greedily"] == f"{mean(after.values()):.3f}"
    for column, label in (("gain, greedily", "before-greedy"), ("beyond the script, greedily", "oracle-baseline")):
        other = rewards("warm-seed-1", label)
        assert other.keys() == after.keys()
        assert found[column].startswith(f"{mean([after[task] - other[task] for task in after]):+.3f} [")


def test_the_arms_differ_in_what_their_names_say(bench, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "config.json").write_text('{"dtype": "float32", "threads": 1}')  # of the warm start
    plan = bench.Plan(
        LETTER_ENV, str(tmp_path / "recipe.toml"), {"lora.rank": 8}, dict.fromkeys(bench.ARMS, 5), "tutor"
    )
    configs = {arm: plan.arm(arm, 7, tmp_path) for arm in bench.ARMS}
    losses = {arm: (c.loss.negative_weight, c.loss.invalid_call_weight) for arm, c in configs.items()}
    others = {"recipe", "cold", "imitation", "filtered", "expert"}
    assert {losses[arm] for arm in others} == {(0.0, 0.5)}
    assert losses["grpo"] == (1.0, None)
    assert losses["positives"] == (0.0, None)
    imitated = {arm: (c.warm_start.policy, c.warm_start.keep) for arm, c in configs.items()}
    assert imitated["imitation"] == ("oracle", "all")
    assert imitated["recipe"] == imitated["filtered"] == ("oracle", "rewarded")
    assert imitated["expert"] == ("tutor", "rewarded")
    assert {(c.optimizer.learning_rate, c.loss.max_gap) for c in configs.values()} == {(1e-2, 5.0)}
    assert {arm: c.optimizer.updates_per_step for arm, c in configs.items() if arm in ("recipe", "grpo")} == {
        "recipe": 2,
        "grpo": 1,
    }
    common = {(c.warm_start.steps, c.seed, c.steps, c.eval.every, c.lora.rank) for c in configs.values()}
    assert common == {(0, 7, 5, 0, 8)}
    assert {arm for arm, c in configs.items() if c.init_adapter != str(tmp_path)} == {"cold"}


STEPS = ["--steps", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say how long a run of recipe is: --steps 32, or --steps recipe=32"),
        (["--steps", "cold=2", "--arms", "cold", "expert"], "say how long a run of expert is"),
        (["--steps", "0"], "--steps takes a number above 0, or ARM=NUMBER, not '0'"),
        (["--steps", "ppo=3"], "ARM=NUMBER, not 'ppo=3'"),
        (["--show"], "has no finished run yet; start one without --show"),
        ([*STEPS, "--set", "loss.clip=1"], "unknown setting 'loss.clip'"),
        ([*STEPS, "--set", "steps"], "--set takes KEY=VALUE, not 'steps'"),
        ([*STEPS, "--set", "warm_start.steps=0"], "need a warm start to begin from"),
        ([*STEPS, "--arms", "trl"], "invalid choice: 'trl' (choose from"),
        ([*STEPS, "--recipe", "email-tpu"], "there is no recipe 'email-tpu'"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_why(bench, tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        bench.main([str(tmp_path), *arguments])
    assert message in f"{stopped.value} {capsys.readouterr().err}"
    assert list(tmp_path.iterdir()) == []
