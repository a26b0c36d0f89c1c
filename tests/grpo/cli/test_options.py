"""Options that are settings: what a command line's text becomes."""

import click
import pytest
from click.testing import CliRunner

from grpo.cli.options import setting_options
from grpo.config import EvalConfig, TrainConfig, checked

GIVEN = [
    (TrainConfig, ["--steps", "5"], {"steps": 5}),
    (TrainConfig, ["--set", "steps=5"], {"steps": 5}),
    (TrainConfig, ["--steps", "5", "--set", "steps=6"], {"steps": 6}),
    (TrainConfig, ["--model", "7"], {"model": "7"}),  # a folder of that name
    (TrainConfig, ["--set", "model=7"], {"model": "7"}),
    (TrainConfig, ["--set", "optimizer.max-grad-norm=null"], {"optimizer.max_grad_norm": None}),
    (TrainConfig, ["--set", "loss.type=gspo"], {"loss.type": "gspo"}),
    (TrainConfig, ["--set", "env_kwargs.order=date"], {"env_kwargs.order": "date"}),
    (TrainConfig, ["--server", "http://a", "--server", "http://b"], {"server.urls": ("http://a", "http://b")}),
    (TrainConfig, ["--cuda"], {"device": "cuda"}),
    (EvalConfig, ["--env-workers", "2"], {"env_workers": 2}),
    (EvalConfig, ["--env-workers", "threads"], {"env_workers": "threads"}),
    (EvalConfig, ["--env-kwargs", '{"max_turns": 6}'], {"env_kwargs": {"max_turns": 6}}),
    (EvalConfig, ["--answer-judge", "m", "-k", "2"], {"answer_judge.model": "m", "k": 2}),
]
OPTIONS = {
    TrainConfig: ("steps", "model", "server.urls", "device"),
    EvalConfig: ("env_workers", "env_kwargs", "answer_judge.model", "k"),
}


@pytest.mark.parametrize(("kind", "arguments", "given"), GIVEN)
def test_an_option_and_set_give_a_setting_what_it_takes(kind, arguments, given):
    got = []
    command = click.command()(setting_options(kind, *OPTIONS[kind])(lambda given: got.append(given)))
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert got == [given]
    assert checked(kind, {"env": "E"} | ({"agent": "a"} if kind is EvalConfig else {}), given)
