"""The built package: what is in the wheel and the sdist, and the wheel at work in an empty environment."""

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests import ROOT

SOURCE = ("email_env", "grpo", "judges", "docs", "scripts", "tests", "data")
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PROGRAM = (
    "import gymnasium as gym, email_env; env = gym.make('EmailSearch-v0'); print(env.reset(seed=0)[1]['scenario_id'])"
)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    pytest.importorskip("build", reason="the package 'build' is not installed (extra 'dev')")
    source = tmp_path_factory.mktemp("source")
    for name in SOURCE:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.db"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "build", "--outdir", "dist"], cwd=source, check=True, capture_output=True)
    return source / "dist"


def test_the_wheel_has_the_code_and_its_data_and_no_tests(dist):
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for needed in (
        "email_env/demo/texts/mails.toml",
        "grpo/recipes/email-cpu.toml",
        "grpo/report/template.html.j2",
        "grpo/report/style.css",
        "grpo/report/explorer.js",
        "judges/scoring/rubrics/default.txt",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "data/", "scripts/"))]
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "scripts/quickstart", "tests/support/envs.py"} <= inside


def test_the_wheel_works_in_an_empty_environment_from_another_folder(dist, tmp_path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on PATH (scripts/test puts it there)")
    (wheel,) = dist.glob("*.whl")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", str(python), str(wheel)], check=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "EMAIL_ENV_CACHE": str(tmp_path / "cache")}
    shown = subprocess.run([python, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("train-")
    absent = "import importlib.util as u; print([m for m in ('torch', 'vllm', 'litellm') if u.find_spec(m)])"
    assert subprocess.run([python, "-c", absent], capture_output=True, text=True, check=True).stdout == "[]\n"
    helped = subprocess.run([python.parent / "grpo-train", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert helped.returncode == 0, helped.stderr
