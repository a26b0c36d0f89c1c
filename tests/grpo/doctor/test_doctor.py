"""grpo-doctor: each check passes where all is well, and fails for real where something is wrong."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from click.testing import CliRunner

from grpo.cli.doctor import doctor as command
from grpo.config import TrainConfig, load_config
from grpo.doctor import checks as doctor
from grpo.doctor.checks import Trouble, examine
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


class Thin(WordEnv):
    """Fails at what models write when they err."""

    def step(self, action):
        if self.turns == 0 and action.startswith("<tool_call>"):
            action = json.loads(action.removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"]
        return super().step(action)


class Damaged(WordEnv):
    def integrity_problems(self):
        return ["table words: page 3 is gone"]


for env_class in (Forgetful, Thin, Damaged):
    if f"{env_class.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(
            f"{env_class.__name__}-v0", entry_point=f"tests.grpo.doctor.test_doctor:{env_class.__name__}"
        )


def config(name: str) -> TrainConfig:
    return TrainConfig(env=f"tests.grpo.doctor.test_doctor:{name}-v0")


def test_a_sound_machine_passes_every_quick_check(tmp_path):
    checks = doctor.quick_checks(CPU, doctor.Needs(tmp_path / "runs" / "new", disk_gib=0.001))
    results = {result.name: result for result in examine(checks)}
    if doctor.PACKAGES and all(map(doctor.importlib.util.find_spec, doctor.PACKAGES)):
        assert {result.status for result in results.values()} == {"ok"}, results
    assert f"{hardware.cpu_count()} cores" in results["hardware"].found
    assert results["env"].found == f"{WORD_ENV}: 4 scenarios; an episode of oracle ended after 1 turns"
    assert results["env's data"].found.endswith("has no data that it can check")
    assert "judge's key" not in results
    assert not (tmp_path / "runs").exists()


def test_a_gpu_that_is_asked_for_and_hidden_is_missed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(Trouble, match=r"no GPU .*but the run asks for CUDA") as caught:
        doctor.check_hardware(TrainConfig(env="", device="cuda"))
    assert caught.value.fix == "install the driver, or use --cpu"


def test_the_memory_of_gpus_is_checked_before_a_run(nvidia_smi):
    nvidia_smi(24564)
    assert "GPU memory" not in dict(doctor.quick_checks(CPU, doctor.Needs()))
    assert "GPU memory" in dict(doctor.quick_checks(load_config("email-gpu", {"env": WORD_ENV}), doctor.Needs()))
    found = doctor.check_gpu_memory(load_config("email-gpu", {"env": WORD_ENV}))
    assert found.startswith("vLLM on GPU 0 (a card, 24.0 GiB): ")
    with pytest.raises(doctor.Unneeded, match=r"needs the config.json of some/model, which is not here yet"):
        doctor.check_gpu_memory(load_config("email-gpu", {"env": WORD_ENV, "model": "some/model"}))
    large = {"env": WORD_ENV, "model": "Qwen/Qwen2.5-7B-Instruct"}
    with pytest.raises(Trouble, match="the model does not fit: the learner takes"):
        doctor.check_gpu_memory(load_config("email-gpu", large))


def test_a_missing_package_is_named_with_its_extra():
    code = (
        "import sys\nfrom grpo.config import TrainConfig\nfrom grpo.doctor import checks as doctor\n"
        "doctor.PACKAGES = ('json', 'no_such_package')\n"
        "(result,) = doctor.examine([('versions', lambda: doctor.check_versions(TrainConfig(env='')))])\n"
        "print(result.status, result.found, result.fix, sep='|')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("failed|not installed: no_such_package|scripts/install cpu, or let")


@pytest.mark.parametrize(
    ("arguments", "status", "found"),
    [
        (
            [],
            "skipped",
            "training and serving are not installed here, evaluation and judging are; for them: scripts/install",
        ),
        (["--recipe", "email-cpu"], "failed", "not installed: no_such_package, nor_this"),
        (["--model", "smollm2-135m"], "failed", "not installed: no_such_package, nor_this"),
        (["--cpu"], "failed", "not installed: no_such_package, nor_this"),
    ],
)
def test_packages_of_the_training_are_missed_only_by_who_means_to_train(
    monkeypatch, tmp_path, arguments, status, found
):
    monkeypatch.setattr(doctor, "PACKAGES", ("no_such_package", "nor_this"))
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
        with pytest.raises(Trouble, match=f"out of reach, and {model} is not in the cache"):
            doctor.check_hub(model)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (result,) = examine([("port", lambda: doctor.check_port(port))])
    assert result.status == "failed"
    assert f"cannot listen on 127.0.0.1 port {port}" in result.found
    assert result.fix == "choose another --port, or 0 for any free one"


def test_a_disk_without_room_is_named(tmp_path):
    with pytest.raises(Trouble, match=r"GiB are free at .*, 1e\+09 are needed"):
        doctor.check_disk(tmp_path, 1e9)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(Trouble, match="cannot be written to"):
        doctor.check_disk(tmp_path / "run", 0.0)


def test_an_env_that_does_not_begin_alike_is_found_out():
    with pytest.raises(Trouble, match=r"two resets with the same seed .* gave different first messages"):
        doctor.check_env(config("Forgetful"))


def test_an_env_that_fails_at_what_models_write_is_found_out():
    with pytest.raises(
        Trouble, match=r"^a call that is no JSON: .* failed at step: JSONDecodeError: .* \(test_doctor"
    ) as it:
        doctor.check_env(config("Thin"))
    assert it.value.fix.startswith(
        "answer a call that is no JSON with a text, an error code and a small penalty: '<tool"
    )


def test_an_unknown_env_and_a_damaged_one_are_named():
    unknown, damaged = examine(
        [
            ("env", lambda: doctor.check_env(config("NoSuch"))),
            ("env's data", lambda: doctor.check_data(config("Damaged"))),
        ]
    )
    (unneeded,) = examine([("env's data", lambda: doctor.check_data(config("NoSuch")))])
    assert (unneeded.status, unneeded.found) == ("skipped", "needs the check of the env")
    assert unknown.found.endswith(
        "Give a registered id; module:id or --env-import imports the module that registers it first"
    )
    assert (unknown.status, damaged.status) == ("failed", "failed")
    assert "NoSuch-v0" in unknown.found
    assert (damaged.found, damaged.fix) == ("table words: page 3 is gone", "build the env's data again")


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
    with pytest.raises(Trouble, match=r"mail\.db"):
        doctor.check_data(sound)


def test_a_missing_key_is_named_and_a_key_never_shown(monkeypatch):
    pytest.importorskip("litellm", reason="litellm is not installed (extra 'judge')")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Trouble, match="openai/o4-mini needs OPENAI_API_KEY") as caught:
        doctor.check_key("openai/o4-mini", None, "--judge-api-base")
    assert caught.value.fix == "export OPENAI_API_KEY=..., or name a server of your own with --judge-api-base"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert doctor.check_key("openai/o4-mini", None, "") == "the key of openai/o4-mini is set"
    assert "not needed" in doctor.check_key("openai/o4-mini", "http://127.0.0.1:1/v1", "")
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    local = "not needed: ollama/llama3 is asked at http://localhost:11434"
    assert doctor.check_key("ollama/llama3", None, "") == local
    judged = load_config(None, {"env": WORD_ENV, "reward": "ruler", "answer_judge.model": "openai/o4-mini"})
    checked = dict(doctor.quick_checks(judged, doctor.Needs()))
    assert checked["answer judge's key"]() == checked["judge's key"]() == "the key of openai/o4-mini is set"


def test_a_rubric_that_is_not_there_is_named(tmp_path):
    rubric = tmp_path / "rubric.txt"
    config = load_config(None, {"env": WORD_ENV, "reward": "ruler", "judge.rubric": str(rubric)})
    check = dict(doctor.quick_checks(config, doctor.Needs()))["rubric"]
    (result,) = examine([("rubric", check)])
    assert (result.status, result.fix) == ("failed", "as the message says")
    assert result.found.startswith(f"the rubric {rubric} (judge.rubric) cannot be read: ")
    rubric.write_text("Größe", encoding="utf-8")
    assert check() == f"{rubric}: 5 characters"


def test_a_judge_of_no_known_provider_has_no_key_and_each_judge_has_its_own_option(monkeypatch, capsys):
    pytest.importorskip("litellm", reason="litellm is not installed (extra 'judge')")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    judged = load_config(None, {"env": WORD_ENV, "reward": "ruler", "answer_judge.model": "openai/o4-mini"})
    checked = dict(doctor.quick_checks(judged, doctor.Needs()))
    for name, option in (("judge's key", "--judge-api-base"), ("answer judge's key", "--answer-judge-api-base")):
        with pytest.raises(Trouble) as missing:
            checked[name]()
        assert missing.value.fix.endswith(f"or name a server of your own with {option}")
    with pytest.raises(Trouble, match="litellm knows no provider for the judge 'qwen3'") as unknown:
        doctor.check_key("qwen3", None, "--answer-judge-api-base")
    assert "for example openai/qwen3, or name a server of your own with --answer-judge" in unknown.value.fix
    assert capsys.readouterr() == ("", ""), "litellm prints a list of providers"
    own = load_config(None, {"env": WORD_ENV, "reward": "my_ruler:score"})
    assert "judge's key" not in dict(doctor.quick_checks(own, doctor.Needs())), "a function of the user's asks no judge"


def test_a_check_that_breaks_is_a_failure_and_the_next_one_runs():
    first, second = examine([("a", lambda: str(1 / 0)), ("b", lambda: "fine")])
    assert first.status == "failed"
    assert first.found.startswith("ZeroDivisionError: division by zero (test_doctor.py:")
    assert (second.status, second.found) == ("ok", "fine")


def test_the_command_shows_failures_with_their_fix_and_fails(tmp_path):
    arguments = ["--env", WORD_ENV, "--quick", "--disk-gib", "1e9", "--run-dir", str(tmp_path)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    assert "FAILED   disk: " in result.output
    assert "\n         -> free some, or choose another --run-dir" in result.output
    assert "checks failed" in result.output
    listed = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).output)
    assert [entry["name"] for entry in listed] == [
        "hardware", "versions", "model hub", "port", "disk", "env", "env's data",
    ]  # fmt: skip
    assert {entry["status"] for entry in listed if entry["name"] == "disk"} == {"failed"}


def test_a_template_that_does_not_append_is_found_out():
    pytest.importorskip("torch", reason="torch is not installed (extra 'train')")
    from grpo.doctor.model_checks import check_round_trip
    from tests.support.policies import ByteChat

    class Forgetting(ByteChat):
        def prompt_ids(self, messages, tools):
            return super().prompt_ids(messages[-1:], tools)

    assert "are the same" in check_round_trip(ByteChat())
    with pytest.raises(Trouble, match=r"differ from id \d+ on"):
        check_round_trip(Forgetting())


@pytest.mark.vllm
def test_the_whole_command_passes_with_a_real_server(vllm_server, tmp_path):
    arguments = ["--env", "EmailSearch-v0", "--recipe", "email-cpu", "--run-dir", str(tmp_path), "--disk-gib", "0.1"]
    arguments += ["--set", f'server.urls=["{vllm_server.url}"]', "--json"]
    result = CliRunner().invoke(command, arguments)
    results = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert {name: entry["status"] for name, entry in results.items()} == dict.fromkeys(results, "ok"), result.output
    assert result.exit_code == 0
    assert list(results)[-6:] == ["model", "computing dtype", "memory", "chat template", "vLLM", "adapter"]
    assert "with the adapter" in results["adapter"]["found"]


@pytest.mark.vllm
def test_a_server_that_does_not_sample_the_published_adapter_is_found_out(vllm_server, monkeypatch):
    from grpo.doctor.model_checks import ModelDoctor
    from grpo.serving.adapters import AdapterHandle, AdapterStore

    monkeypatch.setattr(
        AdapterStore, "publish", lambda *_: AdapterHandle(vllm_server.model, Path(), 0)
    )  # the base's name
    found = {
        result.name: result
        for result in ModelDoctor(load_config(None, {"env": WORD_ENV, "server.urls": [vllm_server.url]})).examine()
    }
    assert (found["vLLM"].status, found["adapter"].status) == ("ok", "failed")
    assert f"vLLM at {vllm_server.url} does not sample the published adapter" in found["adapter"].found
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" in found["adapter"].fix
