"""The commands as a user meets them: help, examples, wrong input."""

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner

from email_env._version import __version__
from grpo.cli.common import explained
from grpo.cli.train import _check_memory, _train, train
from grpo.config import load_config
from grpo.devices.shape import QWEN_MODELS
from grpo.display.terminal import Display
from grpo.doctor.memory import memory_needs
from grpo.errors import ConfigError
from grpo.files import read_jsonl
from tests import documents
from tests.commands import COMMANDS

DOCUMENTS = documents()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_and_a_line_in_the_documents(name):
    result = CliRunner().invoke(COMMANDS[name], ["--help"])
    assert result.exit_code == 0
    assert f"Example: {name} " in " ".join(result.output.split())
    assert f"$ {name} " in DOCUMENTS


def test_minutes_choose_the_steps_so_both_are_refused():
    result = CliRunner().invoke(train, ["--env", "E", "--minutes", "10", "--steps", "3"])
    assert result.exit_code == 2
    assert "--minutes chooses the steps: give --minutes or --steps, not both" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_version(name):
    result = CliRunner().invoke(COMMANDS[name], ["--version"])
    assert (result.exit_code, result.output.split()[-1]) == (0, __version__)


def test_the_packages_run_as_programs_and_name_their_commands():
    from email_env.__main__ import main as email_env_program
    from grpo.__main__ import COMMANDS as SHORT
    from grpo.__main__ import main as grpo_program

    assert {f"grpo-{name}" for name in SHORT} == {name for name in COMMANDS if name.startswith("grpo-")}
    for program, names in ((grpo_program, SHORT), (email_env_program, ("build-enron-db", "make-scenarios"))):
        shown = CliRunner().invoke(program, ["--help"], terminal_width=80).output
        assert "..." not in shown.partition("Commands:")[2]  # no sentence is cut
        for name in names:
            assert f"\n  {name} " in shown
            assert CliRunner().invoke(program, [name, "--help"]).output.startswith("Usage: ")
    result = CliRunner().invoke(grpo_program, ["trian"])
    assert result.exit_code == 2
    assert "No such command 'trian'." in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_a_terminal(name):
    shown = CliRunner().invoke(COMMANDS[name], ["--help"], terminal_width=80).output
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("module", ["grpo", "email_env", "judges", "grpo.cli.evaluate"])
def test_a_module_that_is_run_shows_its_help(module):
    shown = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(f"Usage: python -m {module} [OPTIONS]")


@pytest.mark.parametrize(("device", "first"), [("cuda", ["start", "ready", "learner"]), ("cpu", ["start", "learner"])])
def test_on_a_gpu_nothing_of_the_learner_is_there_before_the_server_is_ready(device, first, monkeypatch):
    """On a CPU both load at the same time; on a GPU vLLM measures the free memory meanwhile."""
    trainer = pytest.importorskip("grpo.training.trainer", reason="the trainer needs torch (install the extra 'train')")
    events = []

    class Server:
        url, model = "http://127.0.0.1:1", "base"

        def start(self):
            events.append("start")

        def wait_ready(self, _on_progress):
            events.append("ready")
            return 0.0

        def stop(self):
            events.append("stop")

    class Learner:
        def __init__(self, *_arguments):
            events.append("learner")
            raise LookupError

    monkeypatch.setattr("grpo.serving.samplers.make_servers", lambda *_arguments: [Server()])
    monkeypatch.setattr(trainer, "Trainer", Learner)
    config = load_config(None, {"env": "CartPole-v1", "device": device})
    run, model = SimpleNamespace(server_log="server.log"), SimpleNamespace(path=None)
    with pytest.raises(LookupError):
        _train(config, run, model, Display(quiet=True), None, None, None)
    assert events == [*first, "stop"]


def test_memory_that_is_short_is_said_before_anything_starts_and_too_little_is_refused(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(QWEN_MODELS["Qwen/Qwen2.5-0.5B-Instruct"].to_config()))
    config = load_config(None, {"env": "CartPole-v1", "device": "cpu", "dtype": "float32"})
    needs = memory_needs(config, tmp_path)
    assert needs.least < needs.total
    said = []

    def checked(free):
        monkeypatch.setattr("grpo.machine.memory.available_gib", lambda: free)
        _check_memory(config, SimpleNamespace(path=tmp_path), SimpleNamespace(note=said.append))

    checked(needs.total + 1)
    assert said[0].startswith(f"{needs.total + 1:.1f} GiB of memory are free, and the run needs about ")
    checked((needs.least + needs.total) / 2)
    assert said[1].startswith("Warning: only ")
    assert "The system may end it without a word: end other programs, lower it with" in said[1]
    with pytest.raises(ConfigError, match=f"of which {needs.least:.1f} cannot be lowered; end other programs"):
        checked(needs.least - 0.1)
    assert len(said) == 2


def text_onto_a_full_disk():
    with Path("/dev/full").open("w") as file:
        file.write("a")


def safetensors_onto_a_full_disk():  # these two are said in the words of the library; it writes to no device
    raise Exception("Error while serializing: I/O error: No space left on device (os error 28)")


def torch_onto_a_full_disk():
    raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 36288 vs 36240")


class OutOfMemoryError(RuntimeError):  # as torch's is called
    pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB."),
        (RuntimeError, "CUDA error: out of memory"),
        (RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_full_gpu_is_one_line_that_says_what_to_lower(capsys, error, said):
    @click.command()
    @explained()
    def train():
        raise error(f"{said}\nsee the documentation")

    with pytest.raises(SystemExit) as ended:
        train.main([], standalone_mode=False)
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"Error: the GPU's memory is full ({said}); lower its use with "
        "--set learner.token_budget=N or --set learner.gradient_checkpointing=true\n"
    )


def test_a_damaged_line_of_a_runs_file_is_named_with_what_to_do(capsys, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(SystemExit) as stopped:
        explained()(lambda: read_jsonl(path))()
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {path} line 2 is not JSON (")
    assert error.endswith("""b'{"st\\n'; mend that line, or take it out\n""")


@pytest.mark.parametrize("save", [text_onto_a_full_disk, safetensors_onto_a_full_disk, torch_onto_a_full_disk])
def test_a_full_disk_is_an_error_that_says_how_to_go_on(save, capsys):
    with pytest.raises(SystemExit) as stopped:
        explained(lambda _options: "What was finished is kept.")(save)()
    assert stopped.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Error: no space is left on the disk (")
    assert shown.endswith("; make room. What was finished is kept.\n")


def more_files_than_a_process_may_open(folder):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        (folder / "a").write_text("a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def safetensors_beyond_a_limit(folder):
    save_file = pytest.importorskip("safetensors.numpy", reason="needs the extra 'train'").save_file
    save_file({"a": np.zeros(10_000)}, folder / "a.safetensors")


def text_beyond_a_limit(folder):
    (folder / "a").write_text("a" * 80_000)


@pytest.mark.parametrize(
    ("save", "why"),
    [
        (text_beyond_a_limit, r"\[Errno 27\] File too large"),
        (safetensors_beyond_a_limit, r".*File too large \(os error 27\).*"),
        (more_files_than_a_process_may_open, r"\[Errno 24\] Too many open files: .*"),
    ],
)
def test_a_disk_that_refuses_is_an_error_that_says_how_to_go_on(save, why, capsys, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        with pytest.raises(SystemExit) as stopped:
            explained(lambda _options: "What was finished is kept.")(save)(folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stopped.value.code == 1
    what_to_do = r"check the disk, the permissions and the limits \(ulimit -a\)\. What was finished is kept\.\n"
    assert re.fullmatch(rf"Error: the system refuses a file \({why}\); {what_to_do}", capsys.readouterr().err)


def test_a_fault_of_ours_keeps_its_traceback():
    def broken():
        raise RuntimeError("unexpected")

    with pytest.raises(RuntimeError, match="unexpected"):
        explained()(broken)()


def test_a_run_for_a_gpu_that_is_not_there_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    arguments = ["--env", "CartPole-v1", "--cuda", "--run-dir", str(tmp_path / "run")]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1, result.output
    assert "device = 'cuda', but torch" in result.output
    assert "sees no GPU (CUDA_VISIBLE_DEVICES = '')" in result.output
    assert not (tmp_path / "run" / "server.log").exists()


def test_help_imports_neither_torch_nor_vllm_nor_transformers():
    code = (
        "import sys\n"
        "from grpo.cli.train import train\n"
        "try:\n    train(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'vllm', 'transformers', 'litellm'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.endswith("[]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "EmailSearch-v0", "--recipe", "nope"], "there is no recipe 'nope'"),
        (
            ["--env", "EmailSearch-v0", "--set", "lerning_rate=1"],
            "did you mean 'optimizer.learning_rate' or 'warm_start.learning_rate'?",
        ),
        (["--env", "EmailSearch-v0", "--env-kwargs", "{bad"], "is not JSON"),
        (["--env", "EmailSearch-v0", "--env-kwargs", "[1]"], "is not a JSON object"),
        (["--env", "EmailSearch-v0", "--set", "steps"], "--set takes KEY=VALUE"),
        (["--env", "EmailSearch-v0", "--group-size", "1"], "greater than or equal to 2"),
    ],
)
def test_wrong_input_says_what_was_wrong_and_leaves_nothing_behind(arguments, message, tmp_path):
    result = CliRunner().invoke(train, [*arguments, "--run-dir", str(tmp_path / "run")])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("value", "said"), [("nan", "nan"), ("1e999", "inf")])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("grpo-eval", "--timeout"),
        ("grpo-eval", "--temperature"),
        ("grpo-eval", "--judge-max-cost"),
        ("grpo-eval", "--judge-timeout-seconds"),
        ("grpo-eval", "--judge-audit-share"),
        ("grpo-eval", "--fail-under"),
        ("grpo-doctor", "--disk-gib"),
        ("grpo-sft", "--min-reward"),
        ("grpo-sft", "--epochs"),
        ("make-scenarios", "--min-realism"),
        ("make-scenarios", "--timeout"),
    ],
)
def test_a_number_that_is_not_finite_is_wrong_usage(name, option, value, said):
    result = CliRunner().invoke(COMMANDS[name], [option, value])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': {said} is " in result.output


def test_an_unknown_env_stops_before_anything_is_started(tmp_path):
    result = CliRunner().invoke(train, ["--env", "NoSuch-v9", "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert "no env with the id 'NoSuch-v9'" in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "tests.fakes:WordEnv-v0", "--env-import", "no_such_module"], "there is no module 'no_such_module'"),
        (["--env", "tests.fakes:WordEnv-v0", "--env-import", "missing.py"], "there is no file missing.py"),
        (["--env", "tests.fakes:WordEnv-v0", "--reward", "best"], "a reward is one of env, ruler, env+ruler, or"),
        (["--env", "tests.fakes:WordEnv-v0", "--reward", "tests.fakes:nope"], "'nope' does not exist in the module"),
        (["--env", "CartPole"], "No registered env with id: CartPole. Near: CartPole-v1, CartPole-v0. Give"),
        (["--env", "EmailSerch-v0"], "Near: EmailSearch-v0"),
        (["--env", "CartPole-v1", "--warm-start-steps", "2"], "warm_start.policy = 'oracle', but CartPole-v1 brings"),
        (["--env", "CartPole-v1", "--env-kwargs", '{"wheels": 3}'], "refused the arguments {'wheels': 3}"),
        (
            ["--env", "CartPole-v1", "--eval-split", "validation"],
            "eval.split = 'validation', but CartPole-v1 has no split",
        ),
        (["--env", "tests.fakes:Pixels-v0"], "shows pictures (uint8 of shape (64, 64, 3))"),
    ],
)
def test_an_env_or_reward_that_cannot_be_used_stops_before_anything_is_started(arguments, message, tmp_path):
    result = CliRunner().invoke(train, [*arguments, "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "run").exists()


def test_a_package_of_training_that_is_missing_is_told_with_what_installs_it(capsys):
    def without_torch():
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    def broken():
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    with pytest.raises(SystemExit):
        explained()(without_torch)()
    said = "Error: this needs the package torch, which is not installed; scripts/install cpu (or gpu) installs all"
    assert capsys.readouterr().err.startswith(said)
    with pytest.raises(ModuleNotFoundError, match="mine"):
        explained()(broken)()


def test_sigterm_lets_what_runs_clean_up_as_ctrl_c_does():
    cleaned = []

    async def episode():
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append("connection")

    command = explained(lambda _options: "Kept.")(lambda: asyncio.run(episode()))
    before = signal.getsignal(signal.SIGTERM)
    try:
        result = CliRunner().invoke(click.command()(command), [])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (result.exit_code, result.output, cleaned) == (130, "\nStopped. Kept.\n", ["connection"])


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--eval-split=tset", "the evaluation needs --set eval.split=NAME of another split"),
        ("--set=eval.selection_split=tset", "the evaluation needs --set eval.selection_split=NAME of another split"),
    ],
)
def test_a_split_that_the_env_has_not_is_named_before_anything_is_started(option, advice, tmp_path):
    arguments = ["--env", "EmailSearch-v0", "--eval-every", "1", "--run-dir", str(tmp_path / "run"), option]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1
    assert "'tset'" in result.output
    assert advice in result.output
    assert not (tmp_path / "run").exists()
