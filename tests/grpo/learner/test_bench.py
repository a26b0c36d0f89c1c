"""`scripts/bench_train` on a tiny model: both forms train on the same rollouts, and find the same gradient."""

import random
import re
import runpy
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("trl", reason="the reference needs trl (install the extra 'dev')")
pytest.importorskip("datasets", reason="trl needs datasets")

from grpo.types import common_prefix
from tests import ROOT
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


def test_each_turn_trains_both_forms_and_their_gradients_agree(tmp_path):
    folder = tiny_chat_model_folder(tmp_path)
    command = ["scripts/bench_train", "--model", folder, "--scale", "0.05", "--rounds", "1", "--shapes", "recipe"]
    shown = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr
    first, _, ours, trl, ratio = shown.stdout.splitlines()
    assert re.fullmatch(r"recipe: 4 rollouts, \d+ tokens, (float32|bfloat16)", first)
    norms = [float(line.rpartition(" ")[2]) for line in (ours, trl)]
    assert norms[0] > 1e-3
    assert norms[1] == pytest.approx(norms[0], rel=0.05)
    assert re.fullmatch(r"  ours: \d+\.\d\d \(.* to .*\) times the tokens/s, \d\.\d\d of the memory", ratio)


def test_the_shapes_are_what_the_page_says():
    shapes = runpy.run_path(str(ROOT / "scripts" / "bench_train"))["SHAPES"]
    found = {name: shape.rows(random.Random(0), 1000) for name, shape in shapes.items()}
    assert {name: len(rows) for name, rows in found.items()} == {"recipe": 4, "prefix": 8, "long": 2}
    means = {name: sum(len(row.ids) for row in rows) / len(rows) for name, rows in found.items()}
    assert means == pytest.approx({"recipe": 550, "prefix": 640, "long": 1980}, rel=0.1)
    for name, shared in (("recipe", 230), ("prefix", 480), ("long", 230)):
        assert common_prefix(found[name][0].ids, found[name][1].ids) == shared
    assert 480 / means["prefix"] > 0.6
    for rows in found.values():
        assert sum(row.advantage for row in rows) == 0.0


def test_a_model_that_is_not_there_is_said_to_be_so(monkeypatch, capsys):
    program = runpy.run_path(str(ROOT / "scripts" / "bench_train"))
    monkeypatch.setattr(sys, "argv", ["bench_train", "--model", "no/such/folder"])
    with pytest.raises(SystemExit, match=r"^2$"):
        program["main"]()
    assert "error: Model 'no/such/folder' is neither an existing folder" in capsys.readouterr().err
