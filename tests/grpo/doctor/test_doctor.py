"""grpo-doctor: each check passes where all is well, and fails for real where something is wrong."""

import json
import os
import re
import shutil
import sqlite3
import sysconfig
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from click.testing import CliRunner

from grpo.cli.doctor import doctor as command
from grpo.config import TrainConfig, load_config
from grpo.doctor import checks as doctor
from grpo.doctor.checks import examine
from grpo.errors import ConfigError, EnvError
from grpo.machine import hardware
from tests.support.envs import WORD_ENV, WordEnv

CPU = TrainConfig(env=WORD_ENV)


class Forgetful(WordEnv):
    """Its first words do not depend on the seed alone."""

    count = 0

    def reset(self, *, seed=None, options=None):
        text, info = super().reset(seed=seed, options=options)
        Forgetful.count += 1
        info["messages"].append({"role": "user", "content": f"Try {self.count}."})
        return text, info


class Falsy(Forgetful):
    """Takes the seed 0 for none."""

    def reset(self, *, seed=None, options=None):
        return (WordEnv if seed else Forgetful).reset(self, seed=seed, options=options)


class Thin(WordEnv):
    """Fails at what models write when they err."""

    def step(self, action):
        if self.turns == 0 and action.startswith("<tool_call>"):
            action = json.loads(action.removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"]
        return super().step(action)


class Damaged(WordEnv):
    def integrity_problems(self):
        return ["table words: page 3 is gone"]


for env_class in (Forgetful, Falsy, Thin, Damaged):
    if f"{env_class.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(
            f"{env_class.__name__}-v0", entry_point=f"tests.grpo.doctor.test_doctor:{env_class.__name__}"
        )


def config(name: str) -> TrainConfig:
    return TrainConfig(env=f"tests.grpo.doctor.test_doctor:{name}-v0")


def quick_checks(config: TrainConfig) -> list[doctor.Check]:
    return doctor.quick_checks(config, Path("runs"), 0.001, training_meant=True)


def test_a_sound_machine_passes_every_quick_check(tmp_path):
    checks = doctor.quick_checks(CPU, tmp_path / "runs" / "new", 0.001, training_meant=True)
    results = {result.name: result for result in examine(checks)}
    if doctor.PACKAGES and all(map(doctor.importlib.util.find_spec, doctor.PACKAGES)):
        assert {result.status for result in results.values()} == {"ok"}, results
    assert f"{hardware.cpu_count()} cores" in results["hardware"].found
    assert results["env"].found == f"{WORD_ENV}: 4 scenarios; an episode of oracle ended after 1 turns"
    assert results["env's data"].found.endswith("has no data that it can check")
    assert "judges" not in results
    assert not (tmp_path / "runs").exists()


def test_the_memory_of_gpus_is_what_a_run_plans(nvidia_smi, monkeypatch):
    def check(**settings):
        config = load_config("email-gpu", {"env": WORD_ENV, **settings})
        assert "GPU memory" in dict(quick_checks(config))
        return doctor.check_gpu_memory(config)

    nvidia_smi(24564)
    assert check().startswith("vLLM on GPU 0 (a card, 24.0 GiB): ")
    with pytest.raises(doctor.Unneeded, match=r"needs the config.json of some/model, which is not here yet"):
        check(model="some/model")
    with pytest.raises(ConfigError, match="the model does not fit: needed are "):
        check(model="Qwen/Qwen2.5-7B-Instruct")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="nvidia-smi shows no GPU"):
        check()


@pytest.mark.parametrize(
    ("arguments", "status", "found"),
    [
        ([], "skipped", "training and serving are not installed here, evaluation and judging are"),
        (["--recipe", "email-cpu"], "failed", "ModuleNotFoundError: No module named 'no_such_package'"),
        (["--model", "smollm2-135m"], "failed", "ModuleNotFoundError: No module named 'no_such_package'"),
        (["--cpu"], "failed", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_packages_of_the_training_are_missed_only_by_who_means_to_train(
    monkeypatch, tmp_path, arguments, status, found
):
    monkeypatch.setattr(doctor, "PACKAGES", ("click", "no_such_package"))  # one is here for another package
    common = ["--env", WORD_ENV, "--json", "--disk-gib", "0.001", "--run-dir", str(tmp_path)]
    shown = CliRunner().invoke(command, [*common, *arguments, *(["--quick"] if arguments else [])])
    results = {result["name"]: result for result in json.loads(shown.output)}
    assert results["versions"]["status"] == status
    assert results["versions"]["found"].startswith(found)
    assert shown.exit_code == (1 if arguments else 0)
    assert results.get("model and vLLM", {"status": "skipped"})["status"] == "skipped"


def test_a_hub_out_of_reach_matters_only_to_a_model_that_is_not_here(monkeypatch, tmp_path):
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "not needed for smollm2-135m" in doctor.check_hub("smollm2-135m")
    assert "not needed" in doctor.check_hub(str(tmp_path))
    for model in ("no-such-org/no-such-model", "no/such/name"):
        with pytest.raises(ConfigError, match=f"out of reach, and {model} is not in the cache"):
            doctor.check_hub(model)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written to"):
        doctor.check_disk(tmp_path / "run", 0.0)


def test_an_env_that_breaks_its_contract_is_found_out():
    same = r"two resets with the same seed \(0\) and scenario gave different first messages"
    with pytest.raises(EnvError, match=rf"{same}; draw"):
        doctor.check_env(config("Forgetful"))
    with pytest.raises(EnvError, match=rf"{same} \(with the seed 1 they did not\); draw everything random in .* 0 too"):
        doctor.check_env(config("Falsy"))
    said = r"^a call that is no JSON: .* failed at step: JSONDecodeError: .* \(test_doctor.*; answer it with a text, an"
    with pytest.raises(EnvError, match=said):
        doctor.check_env(config("Thin"))


@pytest.mark.parametrize(
    ("check", "env", "status", "found"),
    [
        (
            *(doctor.check_env, "NoSuch", "failed"),
            r".*NoSuch-v0.*Give a registered id; module:id or --env-import imports the module that registers it first",
        ),
        (doctor.check_data, "NoSuch", "skipped", "needs the check of the env"),
        (doctor.check_data, "Damaged", "failed", "table words: page 3 is gone; build the env's data again"),
    ],
)
def test_an_unknown_env_and_a_damaged_one_are_named(check, env, status, found):
    (result,) = examine([("env", lambda: check(config(env)))])
    assert result.status == status
    assert re.fullmatch(found, result.found), result.found


def test_a_damaged_mail_database_is_found_out(tmp_path):
    from email_env.cache import demo_database

    path = tmp_path / "mail.db"
    shutil.copy(demo_database(), path)
    sound = TrainConfig(env="EmailSearch-v0", env_kwargs={"db_path": str(path)})
    assert doctor.check_data(sound) == "whole"
    with sqlite3.connect(path) as database:
        page_size = database.execute("PRAGMA page_size").fetchone()[0]
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'emails'").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((root - 1) * page_size + 100)
        file.write(b"\xff" * (page_size - 200))
    with pytest.raises(EnvError, match=r"mail\.db"):
        doctor.check_data(sound)


def test_judges_are_asked_as_a_run_asks_them(tmp_path, monkeypatch):
    pytest.importorskip("litellm", reason="litellm is not installed (extra 'judge')")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rubric = tmp_path / "rubric.txt"
    for settings, said in (
        ({"answer_judge.model": "openai/o4-mini"}, "there is no API key for openai/o4-mini"),
        ({"reward": "ruler", "judge.rubric": str(rubric)}, f"the rubric {rubric} (judge.rubric) cannot be read: "),
    ):
        checks = quick_checks(load_config(None, {"env": WORD_ENV, **settings}))
        (result,) = examine(check for check in checks if check[0] == "judges")
        assert result.status == "failed"
        assert said in result.found
    own = load_config(None, {"env": WORD_ENV, "reward": "my_ruler:score"})
    assert "judges" not in dict(quick_checks(own)), "a function of the user's asks no judge"


def test_a_check_that_breaks_is_a_failure_and_the_next_one_runs():
    first, second = examine([("a", lambda: str(1 / 0)), ("b", lambda: "fine")])
    assert first.status == "failed"
    assert first.found.startswith("ZeroDivisionError: division by zero (test_doctor.py:")
    assert (second.status, second.found) == ("ok", "fine")


def test_the_command_shows_failures_with_their_fix_and_fails(tmp_path):
    arguments = ["--env", WORD_ENV, "--quick", "--disk-gib", "1e9", "--run-dir", str(tmp_path)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    said = r"FAILED   disk: .*GiB free, 1e\+09 needed\); free some, or choose another --run-dir"
    assert re.search(said, result.output), result.output
    assert result.output.endswith("1 of 6 checks failed\n")
    listed = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).output)
    assert [entry["name"] for entry in listed] == [
        "hardware", "versions", "model hub", "disk", "env", "env's data",
    ]  # fmt: skip
    assert {entry["status"] for entry in listed if entry["name"] == "disk"} == {"failed"}
    skipped = CliRunner().invoke(command, ["--env", "NoSuch-v0", "--quick", "--run-dir", str(tmp_path)]).output
    assert "skipped  env's data: needs the check of the env" in skipped
    assert skipped.endswith("1 of 5 checks failed\n"), "a check that did not run has neither failed nor passed"


def put(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_compiler_and_the_headers_are_named_with_what_brings_them(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    said = r"starts on a GPU, and a C compiler and Python's headers \(.*Python.h\) was .* build-essential python3\."
    with pytest.raises(ConfigError, match=said):
        doctor.check_compiler()
    put(tmp_path / "bin", "clang", "")
    (tmp_path / "Python.h").touch()
    assert doctor.check_compiler() == f"{tmp_path}/bin/clang, {tmp_path}/Python.h"
    monkeypatch.setenv("CC", "other-cc")  # Triton takes it as it is given
    with pytest.raises(ConfigError, match="a C compiler was not found"):
        doctor.check_compiler()


@pytest.mark.torch
def test_torch_is_asked_in_a_process_of_its_own_and_its_build_is_told(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    if torch.cuda.is_available():
        assert f"torch {torch.__version__} (CUDA {torch.version.cuda}), driver " in doctor.check_cuda()
        return
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    said = "built without CUDA" if torch.version.cuda is None else "sees no GPU"
    for does, driver in (("exit 9", "unknown"), ("echo 570.86.15; echo 570.86.15", "570.86.15")):
        put(tmp_path / "bin", "nvidia-smi", does)
        doctor.nvidia_smi.cache_clear()
        found = rf"torch {torch.__version__.replace('+', '.')} .*, driver {driver}: torch .*{said}"
        with pytest.raises(ConfigError, match=found):
            doctor.check_cuda()


@pytest.mark.vllm
def test_the_whole_command_passes_with_a_real_server(vllm_server, tmp_path):
    arguments = ["--env", "EmailSearch-v0", "--recipe", "email-cpu", "--run-dir", str(tmp_path), "--disk-gib", "0.1"]
    arguments += ["--set", f'server.urls=["{vllm_server.url}"]', "--json"]
    result = CliRunner().invoke(command, arguments)
    results = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert {name: entry["status"] for name, entry in results.items()} == dict.fromkeys(results, "ok"), result.output
    assert result.exit_code == 0
    assert list(results)[-5:] == ["model", "computing dtype", "memory", "vLLM", "adapter"]
    assert "nats a token at most with an adapter that was moved" in results["adapter"]["found"]


@pytest.mark.vllm
def test_a_server_that_does_not_sample_the_published_adapter_is_found_out(vllm_server, monkeypatch):
    from grpo.doctor.model_checks import ModelDoctor
    from grpo.serving.adapters import AdapterStore

    write = AdapterStore._write
    monkeypatch.setattr(AdapterStore, "_write", lambda *given: replace(write(*given), name=vllm_server.model))
    for name in ("_load", "_unload"):
        monkeypatch.setattr(AdapterStore, name, lambda *_: None)
    config = load_config(None, {"env": WORD_ENV, "server.urls": [vllm_server.url]})
    found = {result.name: result for result in ModelDoctor(config).examine()}
    assert (found["vLLM"].status, found["adapter"].status) == ("ok", "failed")
    assert f"the server at {vllm_server.url} does not sample the model that is trained" in found["adapter"].found
