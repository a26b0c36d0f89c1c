"""How processes start: files that one may open, and glibc's settings for tensors."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo.machine.processes import KEPT_MEMORY
from tests import ROOT

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
from grpo.envs.pool import EnvPool
EnvPool("tests.support.envs:LetterEnv-v0", {}).close()
print(resource.getrlimit(resource.RLIMIT_NOFILE), len([open("/dev/null") for _ in range(400)]))
"""


def test_a_thousand_episodes_may_have_a_file_and_a_socket_each_where_the_system_allows_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "(512, 512) 400\n", done.stderr


GROWTH = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc.mallinfo2.restype = Info
def tensor(megabytes):
    place = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(place), ctypes.c_size_t(64), ctypes.c_size_t(megabytes << 20)) == 0
    return place
for _ in range(50):
    temporary, kept, small = tensor(8), tensor(3), [libc.malloc(size) for size in (24, 40, 56, 72)]
    libc.free(temporary)
print(libc.mallinfo2().arena >> 20)
"""

FREED = (
    GROWTH.split("for _")[0]
    + """
for place in [tensor(40) for _ in range(20)]:
    libc.free(place)
print(libc.mallinfo2().fordblks >> 20)
"""
)

SHOWN = f"import os\nprint(os.getpid(), *[os.environ.get(name) for name in {list(KEPT_MEMORY)}])\n"


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in KEPT_MEMORY} | variables


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="it is measured with glibc's mallinfo2 (2.33)")
def test_a_tensor_fits_where_one_of_its_size_was_freed():
    """50 tensors of 3 MB are kept; of those of 8 MB one is there at a time."""
    command = [sys.executable, "-c", GROWTH]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(**KEPT_MEMORY))
    assert 50 * 3 + 8 <= int(done.stdout) < 200, "without the settings glibc 2.36 has 404"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="it is measured with glibc's mallinfo2 (2.33)")
def test_freed_memory_stays_with_the_process():
    """Of 20 tensors of 40 MB, 800 MB stay; without the settings all of it is given back."""
    command = [sys.executable, "-c", FREED]
    for variables, kept in ((KEPT_MEMORY, 800), ({}, 0)):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(**variables))
        assert kept <= int(done.stdout) < kept + 10


def test_a_command_with_a_learner_starts_once_more_as_the_same_process(tmp_path: Path):
    module, by_user = tmp_path / "shown.py", {"MALLOC_TRIM_THRESHOLD_": "1024"}
    module.write_text(SHOWN)
    words = f"-m grpo sft --data {module} --env-import {module} --out {tmp_path}/out".split()
    process = subprocess.Popen(
        [sys.executable, *words], stdout=-1, stderr=-1, text=True, cwd=ROOT, env=environment(**by_user)
    )
    said, _ = process.communicate(timeout=300)
    assert said.split() == [str(process.pid), *(KEPT_MEMORY | by_user).values()]


def test_a_users_own_program_is_not_started_again():
    program = f"from grpo.machine.processes import start_with_kept_memory\nstart_with_kept_memory()\n{SHOWN}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=True)
    assert done.stdout.split()[1:] == ["None"] * len(KEPT_MEMORY)
