"""A run one of whose envs does not come back from a step goes on without it, as it does with damaged records; a run
whose folder is gone ends.
"""

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training
from grpo.envs import own_thread
from grpo.errors import CheckpointError
from grpo.runs.model_card import write_card
from judges.common.files import read_jsonl
from tests.support.policy_server import TinyPolicyServer, tiny_run
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("place", ["threads", 2])
def test_an_env_that_hangs_loses_its_episode_and_the_next_steps_are_whole(tmp_path, monkeypatch, capsys, place):
    monkeypatch.setattr(own_thread, "STUCK_SECONDS", 10.0)
    monkeypatch.setattr("grpo.watch.PATIENCE_SECONDS", 1.0)
    hang = tmp_path / "hang"
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:

        def train(steps):
            hang.touch()
            settings = {"env_kwargs": {"hang": str(hang)}, "rollout.env_workers": place, "warm_start.steps": 0}
            config = tiny_run(tmp_path / "model", server.url, **settings, steps=steps)
            run_training(config, tmp_path / "run", resume=True, quiet=False)
            assert not hang.exists()
            return [record["episodes/failed"] for record in read_jsonl(tmp_path / "run" / "metrics.jsonl")]

        first = train(2)
        assert first[0] >= 1.0
        assert first[1] == 0.0
        assert "LetterEnv-v0, step of train-" in capsys.readouterr().out
        assert train(4)[2:] == [first[0], 0.0] if place == "threads" else train(4)[3] == 0.0


def test_a_run_whose_folder_was_moved_ends_at_its_next_write_and_goes_on_from_there(tmp_path, monkeypatch):
    run_dir, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def moves(group):
        if (run_dir / "checkpoints" / "step-0002").exists() and not elsewhere.exists():
            run_dir.rename(elsewhere)
        return [float(episode.sample_index) for episode in group.episodes]

    monkeypatch.setattr(f"{__name__}.reward", moves)
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:
        config = tiny_run(tmp_path / "model", server.url, **{"reward": f"{__name__}:reward", "steps": 4})
        with pytest.raises(CheckpointError, match=r"run was removed or moved while the run went on"):
            run_training(config, run_dir, resume=True, quiet=True)
        assert len(read_jsonl(elsewhere / "metrics.jsonl")) == 2
        run_training(config, elsewhere, resume=True, quiet=True)
    assert [record["step"] for record in read_jsonl(elsewhere / "metrics.jsonl")] == [1, 2, 3, 4]


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_folder_that_is_moved_while_it_is_written_to_is_said_to_be_moved(tmp_path, monkeypatch, call):
    run_dir, elsewhere, calls = tmp_path / "run", tmp_path / "elsewhere", []

    def moves(*arguments, **named):
        calls.append(arguments)
        if len(calls) == call:
            run_dir.rename(elsewhere)
        return write_card(*arguments, **named)

    monkeypatch.setattr("grpo.training.trainer.write_card", moves)
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:
        config = tiny_run(tmp_path / "model", server.url, **{"eval.scenarios": 2, "eval.baselines": "none", "steps": 2})
        with pytest.raises(CheckpointError, match=r"run was removed or moved while the run went on"):
            run_training(config, run_dir, resume=True, quiet=True)
        run_training(config, elsewhere, resume=True, quiet=True)
    assert [record["step"] for record in read_jsonl(elsewhere / "metrics.jsonl")] == [1, 2]


def test_a_run_with_damaged_records_goes_on_and_says_what_is_left_out(tmp_path, capsys):
    run_dir = tmp_path / "run"
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:

        def train(steps):
            settings = {"eval.scenarios": 2, "eval.baselines": "none", "warm_start.steps": 2, "steps": steps}
            run_training(tiny_run(tmp_path / "model", server.url, **settings), run_dir, resume=True, quiet=False)
            return capsys.readouterr().out

        train(2)
        damaged = [run_dir / "metrics.jsonl", run_dir / "warmstart.jsonl", *run_dir.glob("*/*sampled.js*")]
        damaged += run_dir.glob("trajectories/*.jsonl")
        assert len(damaged) == 2 + 4 + 2
        for path in damaged:
            path.write_bytes(b"\xff\x00\n" + path.read_bytes())
        said = "".join(train(3).split())
    page = (run_dir / "report.html").read_text()
    for path in damaged:
        if not path.name.startswith("after-"):  # the policy of step 3 took the place of the one of step 2
            assert f"leftout:{path}" in said or path.parent.name == "trajectories"
            assert f"Left out: {path}" in page
    assert [record["step"] for record in read_jsonl(run_dir / "metrics.jsonl", [])] == [1, 2, 3]


def reward(group):
    raise NotImplementedError
