"""The benchmark of learning: all arms on a tiny model against a small real server, its table."""

import json
import re
import runpy
from functools import partial
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.episodes.record import read_episodes
from judges.common.files import read_jsonl
from tests import ROOT
from tests.support.envs import LETTER_ENV
from tests.support.episodes import ids_of, mask_of
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch
PLAYED = ["imitation", "grpo", "cold", "dagger"]
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

        def run(*arms, every, stopped, steps="2", more=()):
            def play(arm, config, run):
                played.append(run.name)
                if run.name == stopped:
                    bench.play_here(arm, config.model_copy(update={"steps": 1}), run)
                bench.play_here(arm, config, run)

            played = []
            model = ("--set", f"server.urls={json.dumps([server.url])}", "--set", f"model={tmp_path / 'model'}")
            command = [str(tmp_path / "out"), "--env", LETTER_ENV, "--recipe", str(tmp_path / "recipe.toml"), *model]
            lengths = ["--steps", steps, "--every", every, "--target", "0.5", "--expert", "oracle"]
            bench.main([*command, *lengths, "--arms", *arms, *more], play)
            return played

        yield run


def test_every_arm_goes_on_from_one_warm_start_and_what_is_there_is_not_played_again(measure, tmp_path, capsys):
    folder, run = tmp_path / "out", partial(measure, every="2", stopped="dagger-seed-0")
    assert run(*PLAYED) == ["warm", *(f"{arm}-seed-0" for arm in PLAYED)]
    assert run("grpo", more=("--seeds", "0", "1")) == ["grpo-seed-1"]
    with pytest.raises(SystemExit, match=r"grpo-seed-0\.json is of other settings:\n  steps: 2 -> 3\nChoose another"):
        run("grpo", steps="3")
    with pytest.raises(SystemExit, match=r"warm\.json is of other settings:\n  lora\.alpha: 32 -> 8"):
        run("grpo", more=("--set", "lora.alpha=8"))

    starts = set()
    for arm in PLAYED:
        result = json.loads((folder / "results" / f"{arm}-seed-0.json").read_text())
        records = read_jsonl(folder / f"{arm}-seed-0" / "metrics.jsonl")
        assert [record["step"] for record in records] == [1, 2], "the one that was stopped went on"
        evaluated = {"dagger": [0, 1, 2], "cold": [2]}.get(arm, [0, 2])  # the one that was stopped evaluated its end
        assert [point["step"] for point in result["curve"]] == evaluated
        assert len(result["greedy"]) == 3
        if arm != "cold":
            starts.add(result["curve"][0]["reward"])
        last = result["curve"][-1]
        assert last["minutes"] == pytest.approx(sum(record["time/step"] for record in records) / 60)
        assert last["cpu_seconds"] == pytest.approx(sum(record["time/cpu"] for record in records))
        assert last["cpu_seconds"] > 0
        assert last["tokens"] == tokens(folder / f"{arm}-seed-0", records) > 0
    assert len(starts) == 1, "all but one begin from the same weights"
    assert json.loads((folder / "cold-seed-0" / "config.json").read_text())["init_adapter"] is None
    (imitated,) = {
        record["tokens/imitated"] for record in read_jsonl(folder / "imitation-seed-0" / "metrics.jsonl")[:1]
    }
    assert imitated > 0
    assert not (folder / "imitation-seed-0" / "trajectories").exists()
    assert [r["dagger/rows"] for r in read_jsonl(folder / "dagger-seed-0" / "metrics.jsonl")] == [4.0, 8.0]

    text = (folder / "table.md").read_text()
    assert text in capsys.readouterr().out
    rows = {line.split("|")[1].strip(): line for line in text.splitlines()[2:]}
    assert list(rows) == PLAYED
    assert re.search(r"\| \d of 2 \|", rows["grpo"])


def test_trl_takes_the_steps_of_its_arm_and_goes_on_from_its_own_checkpoint(measure, tmp_path, capsys):
    pytest.importorskip("trl", reason="the arm needs trl (install the extra 'dev')")
    from safetensors.torch import load_file

    from grpo.envs.message_env import MessageEnv

    folder = tmp_path / "out"
    run = folder / "trl-seed-0"
    measure("trl", every="1", stopped=run.name)

    records = read_jsonl(run / "metrics.jsonl")
    assert [record["step"] for record in records] == [1, 2], "the one that was stopped went on"
    assert all(record["time/rollout"] > 0 and record["time/train"] > 0 for record in records)
    assert {record["lr"] for record in records} == {1e-2}

    played = [list(read_episodes(run / f"trajectories/step-000{n}.jsonl")) for n in (1, 2)]
    env = MessageEnv(LETTER_ENV, {})
    for record, episodes in zip(records, played, strict=True):
        assert [episode.sample_index for episode in episodes] == [0, 1, 0, 1]
        tasks = [episode.task for episode in episodes]
        assert tasks[0] == tasks[1] != tasks[2] == tasks[3], "groups of one task each"
        for episode in episodes:
            env.reset(episode.task)
            said = [message["content"] for message in episode.messages if message["role"] == "assistant"]
            assert episode.reward == pytest.approx(sum(env.step(text).reward for text in said))
            assert len(said) == 2
            assert 2 <= episode.num_sampled_tokens <= 16, "at most 8 tokens a turn"
        assert record["reward/mean"] == pytest.approx(sum(episode.reward for episode in episodes) / 4)
        assert len({episode.reward for episode in episodes}) > 1
    env.close()
    assert played[0] != played[1]

    def adapter(*parts):
        return load_file(run.joinpath(*parts, "adapter_model.safetensors"))

    warm = load_file(folder / "warm" / "checkpoints" / "step-0000" / "adapter_model.safetensors")
    start, first, second = (adapter("trl", name) for name in ("start", "checkpoint-1", "checkpoint-2"))
    kept = adapter("checkpoints", "step-0002")
    for name, weight in kept.items():
        assert weight.equal(second[name]), "what is evaluated is what TRL trained"
        assert start[name].equal(first[name]), "it went on from the first step"
    assert any(not warm[name].equal(first[name]) for name in warm)
    assert any(not first[name].equal(second[name]) for name in first)
    trained = json.loads((run / "trl" / "checkpoint-2" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in trained["log_history"]] == [1, 2], "TRL counted on"
    logged = [entry["reward"] for entry in trained["log_history"]]
    assert logged == pytest.approx([record["reward/mean"] for record in records]), "its rewards are the env's"

    result = json.loads((folder / "results" / "trl-seed-0.json").read_text())
    assert [point["step"] for point in result["curve"]] == [0, 1, 2]
    assert result["curve"][2]["tokens"] == sum(episode.num_tokens for episodes in played for episode in episodes)
    assert result["curve"][2]["cpu_seconds"] > 0
    assert "| trl | " in capsys.readouterr().out


def test_the_arms_differ_in_what_their_names_say(bench, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "config.json").write_text('{"dtype": "float32", "threads": 1}')  # of the warm start
    plan = bench.Plan(LETTER_ENV, str(tmp_path / "recipe.toml"), {"lora.rank": 8}, 30.0, None, 2, "tutor")
    configs = {arm: plan.arm(arm, 7, tmp_path) for arm in bench.ARMS}
    losses = {arm: (c.loss.negative_weight, c.loss.invalid_call_weight) for arm, c in configs.items()}
    others = {"recipe", "cold", "imitation", "filtered", "expert", "dagger"}
    assert {losses[arm] for arm in others} == {(0.0, 0.5)}
    assert losses["grpo"] == losses["trl"] == (1.0, None)
    assert losses["positives"] == (0.0, None)
    imitated = {arm: (c.warm_start.policy, c.warm_start.keep) for arm, c in configs.items()}
    assert imitated["imitation"] == ("oracle", "all")
    assert imitated["recipe"] == imitated["filtered"] == ("oracle", "rewarded")
    assert imitated["expert"] == imitated["dagger"] == ("tutor", "rewarded")
    assert {(c.optimizer.learning_rate, c.loss.max_gap) for c in configs.values()} == {(1e-2, 5.0)}
    assert {arm: c.optimizer.updates_per_step for arm, c in configs.items() if arm in ("recipe", "grpo")} == {
        "recipe": 2,
        "grpo": 1,
    }
    common = {(c.warm_start.steps, c.seed, c.minutes, c.eval.every, c.lora.rank) for c in configs.values()}
    assert common == {(0, 7, 30.0, 2, 8)}
    assert {arm for arm, c in configs.items() if c.init_adapter != str(tmp_path)} == {"cold"}


def tokens(run, records):
    played = [episode.num_tokens for path in run.glob("trajectories/*.jsonl") for episode in read_episodes(path)]
    return sum(played) + sum(int(record.get("tokens/imitated", 0)) for record in records)


def result_of(bench, arm, seed, *rewards):
    curve = [bench.Point(n, 2.0 * n, 100.0 * n, 5000 * n, reward, None, None) for n, reward in enumerate(rewards)]
    end = (rewards[-1], rewards[-1] - 0.1, rewards[-1] + 0.1)
    return bench.Result(arm, seed, curve, end, (0.9, None, None) if arm == "dagger" else None, {})


def test_the_table_counts_runs_that_did_not_get_there_and_takes_them_for_the_longest(bench):
    runs = [
        result_of(bench, "grpo", 0, 0.4, 0.6, 0.8),
        result_of(bench, "grpo", 1, 0.4, 0.5, 0.5),
        result_of(bench, "grpo", 2, 0.4, 0.7),
        result_of(bench, "dagger", 0, 0.4, 0.5),
    ]
    assert bench.table(runs, 0.7).splitlines()[2:] == [
        "| grpo | 2 of 3 | 4.0 (4.0, –, 2.0) | 10 (10, –, 5) | 200 (200, –, 100) "
        "| 2.0 (2.0, 2.0, 2.0) | 5 (5, 5, 5) | 200 (200, 200, 100) "
        "| 0.800 [0.700, 0.900], 0.500 [0.400, 0.600], 0.700 [0.600, 0.800] | –, –, – |",
        "| dagger | 0 of 1 | – | – | – | 2.0 | 5 | 100 | 0.500 [0.400, 0.600] | 0.900 |",
    ]


STEPS = ["--target", "0.5", "--steps", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "0.5"], "say how long a run is: --minutes or --steps, one of them"),
        (["--target", "0.5", "--minutes", "3", "--steps", "3"], "one of them"),
        (["--target", "0.5", "--steps", "0"], "--steps is above 0, not 0"),
        (["--target", "0.5", "--show"], "has no finished run yet; start one without --show"),
        (["--steps", "2"], "the following arguments are required: --target"),
        ([*STEPS, "--arms", "ppo"], "invalid choice: 'ppo' (choose from"),
        ([*STEPS, "--set", "loss.clip=1"], "unknown setting 'loss.clip'"),
        ([*STEPS, "--set", "steps"], "--set takes KEY=VALUE, not 'steps'"),
        ([*STEPS, "--set", "warm_start.steps=0"], "need a warm start to begin from"),
        ([*STEPS, "--set", "reward=ruler"], "reward = 'ruler', which the arm trl does not do; leave it at 'env'"),
        ([*STEPS, "--set", "device=cuda"], "which the arm trl does not do; leave it at 'cpu', or name the other"),
        ([*STEPS, "--recipe", "email-tpu"], "there is no recipe 'email-tpu'"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_why(bench, tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        bench.main([str(tmp_path), *arguments])
    assert message in f"{stopped.value} {capsys.readouterr().err}"
    assert list(tmp_path.iterdir()) == []


def test_the_warm_starts_policy_takes_over_behind_turns_that_were_said(tmp_path):
    from grpo.chat import chat_for, load_tokenizer
    from grpo.envs.message_env import MessageEnv
    from grpo.training.imitation import demonstrate
    from grpo.types import Task

    chat = chat_for(load_tokenizer(tiny_chat_model_folder(tmp_path)), "fork", {})
    env = MessageEnv(LETTER_ENV, {})
    said = [*chat.encode("abc"), chat.stop_token_ids[0]]
    shown = demonstrate(env, Task(0, "train-a"), chat, "oracle", 1, [said])
    env.close()
    assert [m["content"] for m in shown.messages if m["role"] == "assistant"] == ["abc", "zz"]
    actions = [token for token, acts in zip(ids_of(shown), mask_of(shown), strict=True) if acts]
    assert chat.decode(actions) == "zz"
    assert shown.reward == pytest.approx(2 / 4 + 2 / 3), "both turns are paid, the second alone is imitated"
