"""Which engine a run gets, and what is refused."""

import os

import pytest
from click.testing import CliRunner

from grpo.cli.train import train
from grpo.config import load_config
from grpo.errors import ConfigError
from grpo.learner.engines import described, engine_name
from grpo.machine.processes import child_environment
from grpo.machine.torchrun import Place, place
from tests.fakes import LETTER_ENV


def config(**settings):
    return load_config(None, {"env": LETTER_ENV, **settings})


@pytest.fixture
def under_torchrun(monkeypatch):
    def launch(rank, size):
        given = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        for name, value in (given | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}).items():
            monkeypatch.setenv(name, str(value))

    return launch


def test_the_engine_is_what_the_program_was_started_as(under_torchrun):
    assert place() is None
    assert engine_name(config()) == engine_name(config(engine="local")) == "local"
    assert described(config()) == ""
    under_torchrun(1, 4)
    assert place() == Place(rank=1, size=4, local_rank=1, local_size=4)
    assert engine_name(config()) == engine_name(config(engine="torchrun")) == "torchrun"
    assert described(config()) == "learner: 4 processes of torchrun train the model; they have it whole"


def test_an_engine_that_was_not_started_or_would_ignore_a_setting_is_refused(under_torchrun):
    with pytest.raises(ConfigError, match="torchrun did not start this program; start it with torchrun --nproc"):
        engine_name(config(engine="torchrun"))
    with pytest.raises(ConfigError, match=r"learner\.shard = true, but the engine is one process"):
        engine_name(config(**{"learner.shard": True}))
    with pytest.raises(ConfigError, match="engine = 'tinker': Input should be 'auto', 'local' or 'torchrun'"):
        config(engine="tinker")
    under_torchrun(0, 2)
    assert engine_name(config(**{"learner.shard": True})) == "torchrun"
    with pytest.raises(ConfigError, match="engine = 'local', but 2 processes were started"):
        engine_name(config(engine="local"))


def test_the_command_refuses_before_it_writes_anything(tmp_path):
    arguments = ["--env", LETTER_ENV, "--run-dir", str(tmp_path / "run"), "--engine", "torchrun"]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1
    assert "Error: engine = 'torchrun', but torchrun did not start this program" in result.output
    assert not (tmp_path / "run").exists()


def test_a_child_that_is_no_learner_is_not_told_of_torchrun(under_torchrun, monkeypatch):
    under_torchrun(0, 2)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    child = child_environment({"MINE": "1"})
    assert child["MINE"] == "1"
    assert child.keys() & {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"} == set()
    assert os.environ["RANK"] == "0"
