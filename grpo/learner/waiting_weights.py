"""The frozen weights of a model in the host's memory, and on a GPU only while they are computed with.

They never change, so the copy on the host is made once, and the one on the GPU is dropped without a look at it. It is
in ordinary memory: torch gives page-locked memory out in powers of two, so up to twice as much of it, for a copy that
takes seconds of a step of minutes.
"""

from __future__ import annotations

from typing import Any

import torch


class WaitingWeights:
    """All frozen parameters of a model. The others and the buffers, which are small, stay on the device."""

    def __init__(self, model: Any, device: torch.device):
        """Bring what is not frozen to ``device``; the model is on the CPU, and computes nothing before ``load``."""
        self._device = device
        self._host = [(weight, weight.data) for weight in model.parameters() if not weight.requires_grad]
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.to(device)
        for module in model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                setattr(module, name, buffer.to(device))

    def load(self) -> None:
        """Copy them to the device."""
        for weight, host in self._host:
            weight.data = host.to(self._device, copy=True)

    def unload(self) -> None:
        """Give their memory on the device back to it, for other processes, too."""
        for weight, host in self._host:
            weight.data = host
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
