"""How many compiled kernels oneDNN keeps, the library that computes torch's bfloat16 products on a CPU.

It compiles a kernel for every shape of a product, 0.6 MB each (AMX), and keeps the last 1,024. A micro-batch needs 25
for its number of tokens, and three for each size of a block of attention. Nearly every micro-batch has sizes of its
own, so a few steps fill the cache: 0.63 GB, which lie between activations and hold up what could be freed around them.
With fewer kept, some are compiled again (2 ms each), and 0.33 GB less is in use.
"""

from __future__ import annotations

import os

import torch

VARIABLE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
KEPT_KERNELS = 256
"""More than a micro-batch needs, with rows of 30 tokens too: else each layer would compile its kernels again."""


def bound_kernel_cache() -> None:
    """Have oneDNN keep ``KEPT_KERNELS``, where the user has not set ``VARIABLE`` and it has made no kernel yet.

    It reads the variable once, with its first kernel. Processes that are started later, as a server, do not inherit it.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = str(KEPT_KERNELS)
    try:
        square = torch.ones(32, 32, dtype=torch.bfloat16)
        torch.mm(square, square)
    finally:
        del os.environ[VARIABLE]
