"""The bound on oneDNN's kernels, in processes of their own: it is read once in the life of a process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.learner.cpu.kernel_cache import KEPT_KERNELS, VARIABLE

pytestmark = pytest.mark.torch

PROGRAM = f"""
import os
import torch
from grpo.learner.cpu.kernel_cache import bound_kernel_cache

bound_kernel_cache()
print("left behind:", os.environ.get({VARIABLE!r}))
right = torch.ones(32, 16, dtype=torch.bfloat16)
for rows in [*range(40, 40 + {KEPT_KERNELS} + 20), 40]:
    torch.mm(torch.ones(rows, 32, dtype=torch.bfloat16), right)
"""


@pytest.mark.parametrize(("users", "forgotten"), [(None, True), ("1024", False)])
def test_the_oldest_kernel_is_forgotten_unless_the_user_says_otherwise(users, forgotten):
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {"ONEDNN_VERBOSE": "profile_create"} | ({VARIABLE: users} if users else {})
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert f"left behind: {users}" in done.stdout
    first = [line for line in done.stdout.splitlines() if ",40x32:32x16," in line]
    if not first:
        pytest.skip("torch does not compute bfloat16 products by oneDNN on this processor")
    made = sum("cache_miss" in line for line in first)
    assert made == (2 if forgotten else 1)
