"""What a measured second says of a machine: from given figures, and the real probe with the instruction set limited."""

import json
import platform
import subprocess
from pathlib import Path

import pytest

from grpo.errors import ModelError
from grpo.machine.probe import Probe, computing_dtype, read
from grpo.machine.processes import child_environment, module_command

WITHOUT_UNITS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""Variables that limit torch and oneDNN to what processors without matrix units for bfloat16 have."""


def cpu_flags():
    """What the processor says it can do; nothing where the system does not tell."""
    listing = Path("/proc/cpuinfo")
    return listing.read_text(encoding="utf-8").split() if listing.exists() else []


FLOAT32 = {"float32": 1.0, "bfloat16": 4.0}


def measured(environment):
    """What the probe says of two cores with these variables."""
    pytest.importorskip("torch", reason="the probe needs torch (install the extra 'train')")
    command = module_command("grpo.machine.probe", "576", "1536", "2", "2")
    probed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert probed.returncode == 0, probed.stderr
    return read(json.loads(probed.stdout))


@pytest.mark.torch
@pytest.mark.skipif("amx_bf16" not in cpu_flags(), reason="this processor has no matrix units for bfloat16 (AMX)")
def test_a_processor_with_matrix_units_for_bfloat16_computes_in_it():
    free = {name: value for name, value in child_environment().items() if name not in WITHOUT_UNITS}
    assert measured(free).computing.dtype == "bfloat16"


@pytest.mark.torch
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the variables limit x86 processors")
def test_a_processor_without_matrix_units_for_bfloat16_computes_in_float32():
    found = measured(child_environment(WITHOUT_UNITS))
    assert found.computing.dtype == "float32"
    assert sorted(found.gflops) == [1, 2]
    assert 1 < found.gflops[1] < 1.2 * found.core_gflops


@pytest.mark.parametrize(
    ("gflops", "cores", "setting", "threads", "said"),
    [
        ({1: 60.0, 2: 112.0}, 2, None, 2, ("",)),
        ({1: 60.0, 2: 66.0}, 1, None, 2, ("",)),  # threads that share a core
        ({1: 58.0, 2: 66.0}, 2, None, 2, ("2 cores give 55% of what they could (load average ", "that much longer")),
        ({1: 50.0, 2: 50.0}, 2, None, 2, ("2 cores give 42%", "longer")),
        ({1: 30.0, 2: 24.0}, 2, None, 1, ("2 cores give 20%", "so it uses one to its end (--set threads=2 uses all)")),
        ({1: 30.0, 2: 24.0}, 2, 2, 1, ("2 cores give 20%", "longer")),
        ({1: 15.0}, 1, None, 1, ("the core gives 25%", "longer")),
    ],
    ids=["idle", "one core of two threads", "busy", "equal", "one is faster", "two are set", "one core"],
)
def test_all_threads_are_used_unless_one_is_faster_and_shared_cores_are_told_from_idle_ones(
    gflops, cores, setting, threads, said
):
    probe = Probe(FLOAT32, 60.0, gflops, cores)
    assert probe.threads == threads
    note = probe.note(setting)
    assert all(part in note for part in said), note
    assert note.endswith(said[-1])
    assert bool(note) == bool(said[0])


def test_the_speed_is_that_of_the_dtype_and_of_the_threads_that_are_used():
    """By hand: 100 GFLOP/s in float32; bfloat16 takes four times as long."""
    found = Probe(FLOAT32, 60.0, {1: 60.0, 2: 100.0}, 2)
    assert (found.speed("float32"), found.speed("bfloat16"), found.speed("float32", 1)) == (100.0, 25.0, 60.0)


@pytest.mark.parametrize(
    ("float32", "bfloat16", "said"),
    [
        (0.012, 0.004, "bfloat16: 3.0 times faster here than float32 (measured)"),
        (0.012, 0.03, "float32: 2.5 times faster here than bfloat16 (measured)"),
        (0.01, 0.01, "float32: 1.0 times faster here than bfloat16 (measured)"),
    ],
)
def test_the_faster_dtype_is_taken_and_the_log_says_by_how_much(float32, bfloat16, said):
    assert str(Probe({"float32": float32, "bfloat16": bfloat16}, 60.0, {1: 60.0}, 1).computing) == said


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
