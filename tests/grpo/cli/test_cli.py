"""The commands as a user meets them: help, examples, wrong input."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from email_env.versions import __version__
from grpo.cli.train import _check_memory, _train, train
from grpo.config import load_config
from grpo.devices.memory import cpu_needs
from grpo.devices.shape import RECIPES_MODELS
from grpo.display.terminal import Display
from grpo.errors import ConfigError
from tests import documents
from tests.grpo.chat.templates import at_a_message
from tests.support.commands import COMMANDS
from tests.support.envs import WORD_ENV
from tests.support.tiny_model import tiny_chat_model_folder

DOCUMENTS = documents()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_a_line_in_the_documents_and_a_version(name):
    result = CliRunner().invoke(COMMANDS[name], ["--help"], terminal_width=80)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80, "it fits a terminal"
    assert f"Example: {name} " in " ".join(result.output.split())
    assert f"$ {name} " in DOCUMENTS
    result = CliRunner().invoke(COMMANDS[name], ["--version"])
    assert (result.exit_code, result.output.split()[-1]) == (0, __version__)


def test_the_packages_run_as_programs_and_name_their_commands():
    from email_env.__main__ import main as email_env_program
    from grpo.__main__ import main as grpo_program

    short = [name.removeprefix("grpo-") for name in COMMANDS if name.startswith("grpo-")]
    for program, names in ((grpo_program, short), (email_env_program, ("build-enron-db", "make-scenarios"))):
        shown = CliRunner().invoke(program, ["--help"], terminal_width=80).output
        assert "..." not in shown.partition("Commands:")[2]  # no sentence is cut
        for name in names:
            assert f"\n  {name} " in shown
            assert CliRunner().invoke(program, [name, "--help"]).output.startswith("Usage: ")
    result = CliRunner().invoke(grpo_program, ["trian"])
    assert result.exit_code == 2
    assert "No such command 'trian'." in result.output


@pytest.mark.parametrize("module", ["grpo", "email_env", "judges"])
def test_a_module_that_is_run_shows_its_help(module):
    shown = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(f"Usage: python -m {module} [OPTIONS]")


def test_a_module_of_a_command_is_not_run_by_itself():
    ran = subprocess.run([sys.executable, "-m", "grpo.cli.evaluate", "--help"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("the commands are run by python -m grpo COMMAND")


@pytest.mark.parametrize(("device", "first"), [("cuda", ["start", "ready", "learner"]), ("cpu", ["start", "learner"])])
def test_on_a_gpu_nothing_of_the_learner_is_there_before_the_server_is_ready(device, first, monkeypatch):
    """On a CPU both load at the same time; on a GPU vLLM measures the free memory meanwhile."""
    trainer = pytest.importorskip("grpo.training.trainer", reason="the trainer needs torch (install the extra 'train')")
    events = []

    class Server:
        url, model = "http://127.0.0.1:1", "base"

        def start(self):
            events.append("start")

        def wait_ready(self, _say):
            events.append("ready")
            return 0.0

        def stop(self):
            events.append("stop")

    class Learner:
        def __init__(self, *_arguments):
            events.append("learner")
            raise LookupError

    monkeypatch.setattr("grpo.training.engines.make_servers", lambda *_arguments: [Server()])
    monkeypatch.setattr(trainer, "Trainer", Learner)
    config = load_config(None, {"env": "CartPole-v1", "device": device})
    run, model = SimpleNamespace(server_log="server.log"), SimpleNamespace(path=None)
    with pytest.raises(LookupError):
        _train(config, run, model, Display(quiet=True), None, None, None)
    assert events == [*first, "stop"]


def test_memory_that_is_short_is_said_before_anything_starts_and_too_little_is_refused(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(RECIPES_MODELS["Qwen/Qwen2.5-0.5B-Instruct"].to_config()))
    config = load_config(None, {"env": "CartPole-v1", "device": "cpu", "dtype": "float32"})
    needs = cpu_needs(config, RECIPES_MODELS["Qwen/Qwen2.5-0.5B-Instruct"])
    said = []

    def checked(free):
        monkeypatch.setattr("grpo.machine.hardware.available_gib", lambda: free)
        _check_memory(config, SimpleNamespace(path=tmp_path), SimpleNamespace(note=said.append))

    checked(needs.least + 0.1)
    assert said[0].startswith("Warning: only ")
    with pytest.raises(ConfigError, match=r"^only \d+\.\d GiB of memory are free"):
        checked(needs.least - 0.1)


@pytest.mark.torch
def test_a_template_that_refuses_a_tools_reply_ends_a_run_before_anything_starts(tmp_path):
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    folder = tiny_chat_model_folder(tmp_path / "model")
    refuses = at_a_message("{{ raise_exception('no replies') if m.role == 'tool' else m.content or '' }}")
    (folder / "chat_template.jinja").write_text(refuses)
    arguments = ["--env", WORD_ENV, "--cpu", "--model", str(folder), "--run-dir", str(tmp_path / "run"), "--quiet"]
    result = CliRunner().invoke(train, [*arguments, "--set", "dtype=float32", "--set", "threads=1"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("Error: the model cannot be prompted with tools: ")
    assert "refuses the roles system, user, assistant, tool: no replies; use a model" in result.output
    assert not (tmp_path / "run" / "server.log").exists()


def test_a_run_for_a_gpu_that_is_not_there_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    arguments = ["--env", "CartPole-v1", "--cuda", "--run-dir", str(tmp_path / "run")]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1, result.output
    assert "device = 'cuda', but torch" in result.output
    assert "sees no GPU (CUDA_VISIBLE_DEVICES = '')" in result.output
    assert not (tmp_path / "run" / "server.log").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "nope"], "there is no recipe 'nope'"),
        (["--set", "lerning_rate=1"], "did you mean 'optimizer.learning_rate' or 'warm_start.learning_rate'?"),
        (["--env-kwargs", "{bad"], "env_kwargs = '{bad': Input should be a valid dictionary, for example"),
        (["--set", "steps"], "--set takes KEY=VALUE"),
        (["--minutes", "10", "--steps", "3"], "--minutes chooses the steps: give --minutes or --steps, not both"),
        (["--steps", "many"], "steps = 'many': Input should be a valid integer"),
        (["--minutes", "nan"], "minutes = 'nan': Input should be a finite number"),
        (["--engine", "magic"], "engine = 'magic': Input should be 'auto', 'local', 'torchrun' or 'tinker'"),
        (["--env", WORD_ENV, "--env-import", "no_such_module"], "there is no module 'no_such_module'"),
        (["--env", WORD_ENV, "--env-import", "missing.py"], "there is no file missing.py"),
        (["--reward", "best"], "a reward is one of env, ruler, env+ruler, or"),
        (["--env", WORD_ENV, "--reward", "tests.support.policies:nope"], "'nope' does not exist in the module"),
        (["--env", "NoSuch-v9"], "no env with the id 'NoSuch-v9'"),
        (["--env", "CartPole"], "No registered env with id: CartPole. Near: CartPole-v1, CartPole-v0. Give"),
        (["--env", "EmailSerch-v0"], "Near: EmailSearch-v0"),
        (
            ["--env", "CartPole-v1", "--set", "warm_start.steps=2"],
            "warm_start.policy = 'oracle', but CartPole-v1 brings",
        ),
        (["--env", "CartPole-v1", "--env-kwargs", '{"wheels": 3}'], "refused the arguments {'wheels': 3}"),
        (["--env", "CartPole-v1", "--set", "eval.split=v"], "eval.split = 'v', but CartPole-v1 has no split"),
        (["--env", "tests.support.envs:Pixels-v0"], "shows pictures (uint8 of shape (64, 64, 3))"),
        (["--set", "eval.split=tset"], "the evaluation needs --set eval.split=NAME of another split"),
        (
            ["--set", "eval.every=1", "--set", "eval.selection_split=tset"],
            "the evaluation needs --set eval.selection_split=NAME of another split",
        ),
    ],
)
def test_wrong_input_says_what_was_wrong_and_leaves_nothing_behind(arguments, message, tmp_path):
    named = [] if "--env" in arguments else ["--env", "EmailSearch-v0"]
    result = CliRunner().invoke(train, [*named, *arguments, "--run-dir", str(tmp_path / "run")])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("value", "said"), [("nan", "nan"), ("1e999", "inf")])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("grpo-eval", "--fail-under"),
        ("grpo-doctor", "--disk-gib"),
        ("grpo-sft", "--min-reward"),
        ("grpo-sft", "--epochs"),
    ],
)
def test_a_number_that_is_not_finite_is_wrong_usage(name, option, value, said):
    result = CliRunner().invoke(COMMANDS[name], [option, value])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': {said} is " in result.output
