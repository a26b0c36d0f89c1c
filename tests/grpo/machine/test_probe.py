"""What a measured second says of a machine: from given figures, and the real probe with the instruction set limited."""

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from grpo.machine.probe import Probe, read, stolen, taken_by_others
from grpo.machine.processes import child_environment, module_command

WITHOUT_UNITS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""Variables that limit torch and oneDNN to what processors without matrix units for bfloat16 have."""


def cpu_flags():
    """What the processor says it can do; nothing where the system does not tell."""
    listing = Path("/proc/cpuinfo")
    return listing.read_text(encoding="utf-8").split() if listing.exists() else []


FLOAT32 = {"float32": 1.0, "bfloat16": 4.0}


@pytest.mark.torch
@pytest.mark.skipif("amx_bf16" not in cpu_flags(), reason="this processor has no matrix units for bfloat16 (AMX)")
def test_a_processor_with_matrix_units_for_bfloat16_computes_in_it():
    pytest.importorskip("torch", reason="the probe needs torch (install the extra 'train')")
    free = {name: value for name, value in child_environment().items() if name not in WITHOUT_UNITS}
    command = module_command("grpo.machine.probe", "576", "1536", "2")
    probed = subprocess.run(command, env=free, capture_output=True, text=True, timeout=200)
    assert probed.returncode == 0, probed.stderr
    assert read(json.loads(probed.stdout)).dtype == "bfloat16"


@pytest.mark.torch
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the variables limit x86 processors")
def test_a_processor_without_matrix_units_for_bfloat16_computes_in_float32():
    pytest.importorskip("torch", reason="the probe needs torch (install the extra 'train')")
    command = module_command("grpo.machine.probe", "576", "1536", "2")
    probed = subprocess.run(
        command, env=child_environment(os.environ | WITHOUT_UNITS), capture_output=True, text=True, timeout=200
    )
    assert probed.returncode == 0, probed.stderr
    measured = read(json.loads(probed.stdout))
    assert measured.dtype == "float32"
    assert sorted(measured.gflops) == [1, 2]
    assert 1 < measured.gflops[1] < 1.2 * measured.core_gflops


@pytest.mark.parametrize(
    ("gflops", "threads"),
    [({1: 60.0, 2: 118.0}, 2), ({1: 24.5, 2: 11.9}, 1), ({1: 50.0, 2: 50.0}, 2), ({1: 60.0}, 1)],
    ids=["idle", "busy", "equal", "one core"],
)
def test_all_threads_are_used_unless_one_is_faster(gflops, threads):
    assert Probe(FLOAT32, 60.0, gflops).threads == threads


@pytest.mark.parametrize(
    ("gflops", "steal", "setting", "said"),
    [
        ({1: 60.0, 2: 112.0}, 0.0, None, ("",)),
        ({1: 58.0, 2: 66.0}, 0.0, None, ("2 cores give 55% of what they could (load average ", "that much longer")),
        ({1: 30.0, 2: 24.0}, 0.0, None, ("2 cores give 20%", "so it uses one to its end (--set threads=2 uses all)")),
        ({1: 30.0, 2: 24.0}, 0.0, 2, ("2 cores give 20%", "longer")),
        ({1: 15.0}, 0.314, None, ("the core gives 25%", ", 31% of their time taken by other virtual machines)")),
    ],
)
def test_shared_cores_are_told_from_idle_ones(gflops, steal, setting, said):
    note = Probe(FLOAT32, 60.0, gflops, steal).note(setting)
    assert all(part in note for part in said), note
    assert note.endswith(said[-1]) or "taken" in said[-1]
    assert bool(note) == bool(said[0])


def test_the_speed_is_that_of_the_dtype_and_of_the_threads_that_are_used():
    """By hand: 100 GFLOP/s in float32; bfloat16 takes four times as long."""
    measured = Probe(FLOAT32, 60.0, {1: 60.0, 2: 100.0})
    assert (measured.speed("float32"), measured.speed("bfloat16"), measured.speed("float32", 1)) == (100.0, 25.0, 60.0)


def test_cores_are_said_to_be_shared_only_where_others_use_them():
    """Threads that share a core, and cores of two kinds, give less than so many times one core, with nobody else there."""
    slow = Probe(FLOAT32, 60.0, {1: 60.0, 2: 66.0}, others=0.01)
    assert slow.note() == ""
    assert replace(slow, steal=0.05).note() != ""
    assert replace(slow, others=0.3).note().startswith("other programs use these cores: 2 cores give 55%")
    assert replace(slow, gflops={1: 60.0, 2: 40.0}).threads == 1, "fewer are taken all the same"


def test_what_others_computed_is_what_was_computed_without_the_probe():
    """By hand: 1000 ticks passed; 300 user, 100 system and 10 of interrupts are busy, 2 s of them ours."""
    ticks = os.sysconf("SC_CLK_TCK")
    before = "cpu  100 0 100 800 0 0 0 10 0 0"
    after = "cpu  400 0 200 1340 0 4 6 60 0 0"
    assert taken_by_others(before, after, 200 / ticks) == pytest.approx(0.21)
    assert taken_by_others(before, after, 900 / ticks) == 0.0
    assert taken_by_others("", after, 0.0) is None


def test_stolen_time_is_a_share_of_all_cores_time():
    """By hand: 1000 ticks passed, 50 of them in the eighth column."""
    before = "cpu  100 0 100 800 0 0 0 10 0 0"
    after = "cpu  400 0 200 1350 0 0 0 60 0 0"
    assert stolen(before, after) == 0.05
    assert stolen("", after) == stolen(before, before) == 0.0
