"""The script that draws the README's picture, on a made-up run."""

import subprocess
import sys

import pytest

from tests import ROOT
from tests.browser import needs_chromium
from tests.report_parts import make_run

SCRIPT = str(ROOT / "scripts/make_picture")


def test_the_script_explains_itself():
    shown = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
    assert "example: scripts/make_picture" in shown


@pytest.mark.browser
@needs_chromium
def test_a_run_is_drawn_as_a_small_png(tmp_path):
    out = tmp_path / "run.png"
    command = [sys.executable, SCRIPT, str(make_run(tmp_path / "run")), "--out", str(out)]
    subprocess.run(command, capture_output=True, text=True, check=True)
    picture = out.read_bytes()
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert picture.startswith(b"\x89PNG")
    assert width >= 1000
    assert height >= 500
    assert len(picture) <= 200_000
