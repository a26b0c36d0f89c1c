"""The dtype that is faster here: both orders from given times, and the real probe."""

import json
from pathlib import Path

import pytest

from grpo.errors import ModelError
from grpo.machine.dtype import computing_dtype, faster


def test_the_faster_dtype_is_taken_and_the_log_says_by_how_much():
    with_units = faster({"float32": 0.012, "bfloat16": 0.004})
    assert str(with_units) == "bfloat16: 3.0 times faster here than float32 (measured)"
    without = faster({"float32": 0.012, "bfloat16": 0.03})
    assert str(without) == "float32: 2.5 times faster here than bfloat16 (measured)"
    assert faster({"float32": 0.01, "bfloat16": 0.01}).dtype == "float32"


def test_a_set_dtype_and_a_gpu_are_not_probed():
    nowhere = Path("no model")
    assert str(computing_dtype("bfloat16", "cpu", nowhere)) == "bfloat16: as set"
    assert str(computing_dtype("auto", "cuda", nowhere)) == "bfloat16: the default on a GPU"


@pytest.mark.torch
def test_the_probe_has_the_models_shapes_and_what_stops_it_is_said(tmp_path):
    pytest.importorskip("torch", reason="the probe needs torch (install the extra 'train')")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"hidden_size": 64, "intermediate_size": 96}))
    assert "times faster here than" in computing_dtype("auto", "cpu", tmp_path).reason
    config.write_text(json.dumps({"hidden_size": -1, "intermediate_size": 96}))
    with pytest.raises(ModelError, match=r"could not be measured .*dtype = float32 or bfloat16(?s:.*)negative"):
        computing_dtype("auto", "cpu", tmp_path)
