"""Which engine a run gets, and what is refused."""

import os

import pytest
from click.testing import CliRunner

from grpo.cli.train import train
from grpo.config import load_config
from grpo.errors import ConfigError
from grpo.machine.processes import Rank, child_environment, torchrun_rank
from grpo.tinker.backend import Tinker
from grpo.training.engines import Local, Torchrun, backend_of
from tests.support.envs import LETTER_ENV
from tests.support.processes import under_torchrun


def config(**settings):
    return load_config(None, {"env": LETTER_ENV, **settings})


def kind(**settings):
    return type(backend_of(config(**settings)))


def test_the_engine_is_what_the_program_was_started_as(monkeypatch):
    assert torchrun_rank() is None
    assert kind() is kind(engine="local") is Local
    assert backend_of(config()).described() == ""
    under_torchrun(monkeypatch, 1, 4)
    assert torchrun_rank() == Rank(rank=1, size=4, local_rank=1, local_size=4)
    assert kind() is kind(engine="torchrun") is Torchrun
    said = "learner: 4 processes of torchrun train the model; they have it whole"
    assert backend_of(config()).described() == said


def test_an_engine_that_was_not_started_or_would_ignore_a_setting_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="torchrun did not start this program; start it with torchrun --nproc"):
        kind(engine="torchrun")
    with pytest.raises(ConfigError, match=r"learner\.shard = true, but the engine is one process"):
        kind(**{"learner.shard": True})
    with pytest.raises(ConfigError, match="engine = 'ray': Input should be 'auto', 'local', 'torchrun' or 'tinker'"):
        config(engine="ray")
    under_torchrun(monkeypatch, 0, 2)
    assert kind(**{"learner.shard": True}) is Torchrun
    with pytest.raises(ConfigError, match="engine = 'local', but 2 processes were started"):
        kind(engine="local")


TINKER = {"engine": "tinker", "tinker.url": "http://127.0.0.1:9", "optimizer.max_grad_norm": None}


def test_a_tinker_server_gets_no_setting_that_it_would_ignore(monkeypatch):
    backend = backend_of(config(**TINKER))
    assert not backend.computes_here
    assert backend.described().startswith("the Tinker server at http://127.0.0.1:9 trains and samples")
    wrong = {"loss.kl_coef": 0.1, "optimizer.max_grad_norm": 1.0, "rollout.temperature": 0.9}
    wrong |= {"rollout.max_staleness": 1, "dtype": "bfloat16", "device": "cuda", "learner.shard": True}
    wrong |= {"learner.gradient_checkpointing": True, "server.replicas": 2}
    with pytest.raises(ConfigError) as refused:
        kind(**{**TINKER, **wrong})
    lines = str(refused.value).splitlines()
    assert lines[0] == "a Tinker server would ignore these settings:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == list(wrong)
    assert lines[2] == "  optimizer.max_grad_norm: it may cut no gradients; --set optimizer.max_grad_norm=null"
    assert lines[-1] == "  server.replicas: no vLLM server takes part; leave it out"
    with pytest.raises(ConfigError, match=r"engine = 'tinker' needs a server .*; add --tinker-url URL"):
        kind(engine="tinker")
    with pytest.raises(ConfigError, match=r"tinker\.url = 'http://x', but engine = 'auto'; add --engine tinker"):
        kind(**{"tinker.url": "http://x"})
    under_torchrun(monkeypatch, 0, 2)
    with pytest.raises(ConfigError, match="engine = 'tinker' is one process, but torchrun started this program"):
        kind(**TINKER)


def test_what_is_set_instead_is_taken_by_a_tinker_server():
    loss = config(**TINKER, **{"loss.kl_coef": 0, "rollout.temperature": 1, "rollout.max_staleness": 0})
    assert isinstance(backend_of(loss), Tinker)
    assert loss.optimizer.gradient_bound == float("inf")
    assert config().optimizer.gradient_bound == 1.0


def test_the_command_refuses_before_it_writes_anything(tmp_path):
    arguments = ["--env", LETTER_ENV, "--run-dir", str(tmp_path / "run"), "--engine", "torchrun"]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1
    assert "Error: engine = 'torchrun', but torchrun did not start this program" in result.output
    assert not (tmp_path / "run").exists()


def test_a_child_that_is_no_learner_is_not_told_of_torchrun(monkeypatch):
    under_torchrun(monkeypatch, 0, 2)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    child = child_environment({"MINE": "1"})
    assert child["MINE"] == "1"
    assert child.keys() & {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"} == set()
    assert os.environ["RANK"] == "0"
