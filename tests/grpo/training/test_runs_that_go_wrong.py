"""Runs that are made to go nowhere: their first steps say why, in the log, in the report and to grpo-doctor."""

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from click.testing import CliRunner

from grpo.cli.doctor import doctor
from grpo.cli.train import run_training
from tests.support.policy_server import TinyPolicyServer, tiny_run
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


def constant(group):
    return [0.5 for _ in group.episodes]


def by_place(group):
    return [float(episode.sample_index) for episode in group.episodes]


@pytest.mark.parametrize(
    ("settings", "name", "step"),
    [
        ({"reward": f"{__name__}:constant"}, "no spread", 3),
        ({"reward": f"{__name__}:by_place", "optimizer.learning_rate": 1e-9}, "rate too small", 3),
        ({"reward": f"{__name__}:by_place"}, "cut turns", 1),
    ],
)
def test_why_is_said(tmp_path, capsys, settings, name, step):
    run_dir = tmp_path / "run"
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:
        config = tiny_run(tmp_path / "model", server.url, **{"warm_start.steps": 0, "steps": step} | settings)
        run_training(config, run_dir, resume=False, quiet=False)
    assert capsys.readouterr().out.count(f"step {step}: {name}: ") == 1
    assert f"From step {step}, {name}: " in (run_dir / "report.html").read_text()
    looked = CliRunner().invoke(doctor, [str(run_dir)])
    assert f"FAILED   {name}: from step {step}: " in looked.output
    assert looked.exit_code == 1
