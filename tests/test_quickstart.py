"""Where scripts/quickstart trains: on a GPU where there is one and its model is at hand, and else on the CPU."""

import os
import platform
import shutil
import subprocess
import sys

import pytest

from tests import ROOT
from tests.support.http_stub import HttpStub, Response

QWEN = "models--Qwen--Qwen2.5-0.5B-Instruct"
SMI = '#!/bin/sh\necho "GPU 0: a card (UUID: GPU-1)"\n'


@pytest.fixture
def quickstart(tmp_path):
    """The script beside parts that only say what they were asked for; no hub is in reach."""
    (tmp_path / "scripts").mkdir()
    for name in ("quickstart", "install"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    setup = 'VENV=.venv; say() { echo "$*"; }; find_python() { command -v python3; }; '
    setup += 'setup_environment() { echo "extras: $1"; }\n'
    (tmp_path / "scripts/_setup.sh").write_text(setup)
    stubs = {"nvidia-smi": SMI, "build-enron-db": "#!/bin/sh\n", "grpo-train": '#!/bin/sh\necho "train: $*"\n'}
    (tmp_path / "bin").mkdir()
    for name, text in stubs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(*arguments, script="quickstart", **variables):
        path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
        usual = {"PATH": path, "HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
        command = [str(tmp_path / "scripts" / script), *arguments]
        done = subprocess.run(command, env=usual | variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_gpu_is_used_where_the_model_is_a_folder_embedded_or_in_the_hubs_cache(quickstart, tmp_path):
    (tmp_path / "weights").mkdir()
    for model in (f"{tmp_path}/weights", "smollm2-135m"):
        said = quickstart("--model", model, "--steps", "2")
        assert "extras: gpu\n" in said
        assert f"--recipe email-gpu --run-dir runs/quickstart --resume --model {model} --steps 2" in said
    assert "--recipe email-gpu " in quickstart(f"--model={tmp_path}/weights")
    (tmp_path / "cache" / QWEN / "snapshots" / "abc").mkdir(parents=True)
    assert "--recipe email-gpu " in quickstart(HF_HUB_CACHE=f"{tmp_path}/cache")


def test_a_gpu_on_which_vllm_does_not_compute_is_left_alone_before_ten_gigabytes_are_fetched(quickstart, tmp_path):
    for capabilities, recipe in (("7.5", "email-cpu"), ("6.1\n7.5", "email-cpu"), ("7.5\n10.0", "email-gpu")):
        rows = f"case $1 in *compute_cap*) printf '{capabilities}\\n' ;; *) echo 'GPU 0: a card (UUID: GPU-1)' ;; esac"
        program(tmp_path / "bin" / "nvidia-smi", rows)
        said = quickstart("--model", "smollm2-135m")
        assert f"--recipe {recipe} " in said
        assert ("of compute capability 7.5, and vLLM needs 8.0" in said) == (recipe == "email-cpu")


def test_without_model_or_gpu_or_with_cpu_asked_for_it_trains_on_the_cpu(quickstart, tmp_path):
    (tmp_path / "weights").mkdir()
    said = quickstart()
    assert "--recipe email-cpu " in said
    assert "A GPU is here, but neither Qwen/Qwen2.5-0.5B-Instruct nor a model hub is in reach" in said
    for none in ("", "-1"):
        said = quickstart("--model", f"{tmp_path}/weights", CUDA_VISIBLE_DEVICES=none)
        assert "--recipe email-cpu " in said
        assert "A GPU is here" not in said
    assert "--recipe email-cpu " in quickstart("--cpu", "--model", f"{tmp_path}/weights")


def test_a_hub_in_reach_is_asked_for_the_model_unless_the_user_forbids_it(quickstart):
    with HttpStub(lambda _: Response(status=501)) as hub:
        assert "--recipe email-gpu " in quickstart(HF_ENDPOINT=hub.url)
        assert "--recipe email-cpu " in quickstart(HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")


def test_an_install_sets_up_what_is_asked_for_and_starts_nothing(quickstart, tmp_path):
    said = quickstart("cpu,judge", script="install")
    assert said.startswith("extras: cpu,judge\n.venv has it: . .venv/bin/activate")
    assert "train: " not in said
    for wrong in ([], ["--cpu"], ["cpu; ls"]):
        done = subprocess.run([tmp_path / "scripts/install", *wrong], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: scripts/install EXTRAS")


def setup_with(tmp_path, python, *, compiler):
    """What setting up for a GPU says, with this program as Python."""
    (tmp_path / "bin").mkdir()
    programs = {"cksum", "cut", "cat", "rm"} | ({"gcc"} if compiler else set())
    for name in programs:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "/bin/true")
    (tmp_path / "pyproject.toml").write_text("")
    environment = {"PATH": str(tmp_path / "bin"), "PYTHON": str(python)}
    return called("setup_environment", environment, "gpu", cwd=tmp_path)


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def called(function, environment, *arguments, cwd=None):
    """What a function of the set-up says."""
    script = f". {ROOT}/scripts/_setup.sh; {function} {' '.join(map(str, arguments))}"
    bash = shutil.which("bash")
    return subprocess.run([bash, "-c", script], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("here", "named"),
    [
        ('platform.system, platform.machine, os.confstr = lambda: "Darwin", lambda: "arm64", int',
         "Darwin arm64 with a C library other than glibc."),
        ('platform.machine = lambda: "riscv64"', "Linux riscv64 with glibc 2."),
        ('os.confstr = lambda name: "glibc 2.17"', f"Linux {platform.machine()} with glibc 2.17."),
        ('os.confstr = lambda name: "glibc 2.28"', ""),
        ('platform.machine = lambda: "x86_64"; builtins.open = lambda name: io.StringIO("flags : sse4_2 avx")',
         "Linux x86_64 without AVX2 with glibc 2."),
    ],
)  # fmt: skip
def test_a_machine_that_vllm_has_no_build_for_is_named_before_anything_is_fetched(tmp_path, here, named):
    (tmp_path / "sitecustomize.py").write_text(f"import builtins, io, os, platform\n{here}\n")
    python = program(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    done = called("check_platform", {"PATH": str(tmp_path)}, python)
    assert done.returncode == (1 if named else 0)
    assert (f"64-bit ARM, and this is {named}" in done.stderr) if named else not done.stderr


def test_what_vllm_loads_on_a_cpu_is_asked_for_before_anything_is_fetched(tmp_path):
    (tmp_path / "bin").mkdir()
    without = program(tmp_path / "python", 'case "$2" in *libnuma*) exit 1 ;; esac')
    done = called("check_libraries", {"PATH": str(tmp_path / "bin")}, without)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: vLLM needs libnuma.so.1 and lscpu, which was not found. Install it, on Debian"
    )
    program(tmp_path / "bin" / "lscpu", "exit 0")
    with_it = program(tmp_path / "other", "exit 0")
    assert called("check_libraries", {"PATH": str(tmp_path / "bin")}, with_it).returncode == 0


@pytest.mark.parametrize(("version", "lock", "found"), [((3, 11, 4), 0, False), ((3, 13), 0, True), ((3, 13), 1, False),
                                                        ((3, 15), 0, False)])  # fmt: skip
def test_a_python_that_vllm_has_no_build_for_or_that_misreads_mail_is_not_taken(tmp_path, version, lock, found):
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys, sysconfig\nsys.version_info = {version}\nsysconfig.get_config_var = lambda name: {lock}\n"
    )
    python = program(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    done = called("find_python", {"PATH": str(tmp_path), "PYTHON": str(python)})
    assert (done.returncode, done.stdout) == ((0, f"{python}\n") if found else (1, ""))
    assert found or done.stderr.startswith(
        "Error: Python 3.11.5 to 3.14 was not found; install it, or name one: PYTHON="
    )


def test_what_vllm_compiles_on_a_gpu_is_asked_for_before_anything_is_fetched(tmp_path):
    headerless = program(tmp_path / "python", f'case "$2" in *Python.h*) exit 1 ;; esac; exec {sys.executable} "$@"')
    done = setup_with(tmp_path, headerless, compiler=False)
    assert done.returncode == 1
    assert "a C compiler and Python's headers (Python.h of Python 3." in done.stderr
    assert f"sudo apt install build-essential python3.{sys.version_info[1]}-dev" in done.stderr
    assert not (tmp_path / ".venv-gpu").exists()


@pytest.mark.parametrize(
    ("driver", "old"), [("570.86.15", True), ("580.95.05", False), ("No devices were found", False)]
)
def test_a_driver_that_is_too_old_is_named_before_anything_is_fetched(tmp_path, driver, old):
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "nvidia-smi", f"echo {driver}")
    done = called("check_driver", {"PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"})
    assert done.returncode == old
    said = "the NVIDIA driver is 570.86.15, and vLLM for GPUs is built for CUDA 13, which needs 580"
    assert (said in done.stderr) if old else not done.stderr


def test_an_environment_that_could_not_be_made_is_not_left_half_made(tmp_path):
    broken = (
        f'case "$*" in *venv*) mkdir -p .venv-gpu/bin; exit 1 ;; *Python.h*) exit 0 ;; esac; exec {sys.executable} "$@"'
    )
    done = setup_with(tmp_path, program(tmp_path / "python", f"PATH=/usr/bin:/bin\n{broken}"), compiler=True)
    assert done.returncode == 1
    assert "Setting up .venv-gpu with Python 3." in done.stderr
    assert "(some minutes, 10 GB; once)" in done.stderr
    assert not (tmp_path / ".venv-gpu").exists()
