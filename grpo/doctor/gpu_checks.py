"""What a run on GPUs needs of the machine besides its cards: a driver that torch's CUDA runs on, and a C compiler."""

from __future__ import annotations

import subprocess
import sys

from grpo.doctor.checks import Trouble
from grpo.machine.compilers import c_compiler, python_header
from grpo.machine.hardware import LEAST_CAPABILITY
from grpo.machine.processes import child_environment

_ASK_TORCH = (
    "import torch; cards = range(torch.cuda.device_count() if torch.cuda.is_available() else 0); "
    "least = min(map(torch.cuda.get_device_capability, cards), default=(0, 0)); "
    "print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), '{}.{}'.format(*least))"
)
_TIMEOUT_SECONDS = 120


def check_cuda(*, serves: bool = True) -> str:
    """torch sees a GPU, and vLLM can use it where it ``serves`` here.

    Asked in a process of its own, so that none of this one's memory is on a card.
    """
    command = [sys.executable, "-c", _ASK_TORCH]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
        version, cuda, sees, capability = done.stdout.split()[-4:]
    except subprocess.SubprocessError as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise Trouble(f"torch could not be asked ({last})", "install it anew, with the extra 'gpu'") from error
    found = f"torch {version} (CUDA {cuda}), driver {driver_version() or 'unknown'}"
    if cuda == "None":
        raise Trouble(
            f"{found}: torch was built without CUDA, but the run asks for it",
            "use an environment of its own with the extra 'gpu' (scripts/quickstart makes .venv-gpu)",
        )
    if sees != "True":
        said = done.stderr.strip().splitlines()
        raise Trouble(
            f"{found}: torch sees no GPU" + (f" ({said[-1].strip()})" if said else ""),
            f"update the driver to one for CUDA {cuda} (CUDA 13 needs 580 or newer, CUDA 12 525), or look at "
            "CUDA_VISIBLE_DEVICES",
        )
    if serves and float(capability) < LEAST_CAPABILITY:
        raise Trouble(
            f"{found}: a GPU has compute capability {capability}, and vLLM computes in bfloat16 from "
            f"{LEAST_CAPABILITY} on alone",
            "show others with CUDA_VISIBLE_DEVICES (Ampere, such as A10 or RTX 30, or later), or train with --cpu",
        )
    return found


def driver_version() -> str:
    """As nvidia-smi says it; "" where it says none."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(done.stdout.split()), "")


def check_compiler() -> str:
    """A C compiler and Python's headers: vLLM's kernels for GPUs compile a little C when they first run (Triton)."""
    headers, compiler = python_header(), c_compiler()
    missing = [] if compiler else ["a C compiler"]
    missing += [] if headers.exists() else [f"Python's headers ({headers})"]
    if missing:
        major, minor = sys.version_info[:2]
        raise Trouble(
            f"vLLM compiles a little C when it starts on a GPU, and {' and '.join(missing)} was not found",
            f"on Debian and Ubuntu: sudo apt install build-essential python{major}.{minor}-dev",
        )
    return f"{compiler}, {headers}"
