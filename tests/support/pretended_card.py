"""vLLM's parser and configuration with a GPU that is not there: run as a program, see ``configured``.

The installed vLLM may be the one for CPUs. It has the sources for GPUs, too, but not the compiled parts, which stand-ins
replace: nothing is computed.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

GIB = 2**30


def configured(arguments: Sequence[Sequence[str]], capabilities: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """What vLLM makes of each of these command lines on each of these kinds of cards.

    Raises:
        subprocess.CalledProcessError: It refuses one; its words are on stderr.
    """
    asked = json.dumps({"arguments": arguments, "capabilities": capabilities})
    ran = subprocess.run([sys.executable, __file__], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line.removeprefix("found ")) for line in ran.stdout.splitlines() if line.startswith("found ")]


def main() -> None:
    asked = json.load(sys.stdin)
    sys.modules["vllm._C_stable_libtorch"] = ModuleType("vllm._C_stable_libtorch")
    sys.modules["vllm.vllm_flash_attn"] = MagicMock()
    from vllm import platforms
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Card(NonNvmlCudaPlatform):
        capability = (8, 0)

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
            return DeviceCapability(*cls.capability)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "a pretended card"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return 80 * GIB

        @classmethod
        def device_count(cls) -> int:
            return 1

        def is_cumem_allocator_available(self) -> bool:
            return True

    platforms._current_platform = Card()
    from vllm import _custom_ops

    _custom_ops.cutlass_scaled_mm_supports_block_fp8 = _custom_ops.cutlass_scaled_mm_supports_fp8 = lambda _: False
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.model_executor.models import registry
    from vllm.model_executor.models.interfaces import supports_lora
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def looked_up(model: Any) -> Any:
        return registry._ModelInfo.from_model_cls(model.load_model_cls())

    registry._LazyRegisteredModel.inspect_model_cls = looked_up
    parser = make_arg_parser(FlexibleArgumentParser())
    for line in asked["arguments"]:
        args = parser.parse_args(line)
        validate_parsed_serve_args(args)
        for Card.capability in map(tuple, asked["capabilities"]):
            config = AsyncEngineArgs.from_cli_args(args).create_engine_config()
            (name,) = config.model_config.architectures
            found = {
                "architecture": name,
                "dtype": str(config.model_config.dtype),
                "takes_lora": supports_lora(registry.ModelRegistry.models[name].load_model_cls()),
                "rank": config.lora_config.max_lora_rank,
                "length": config.model_config.max_model_len,
                "caches": config.cache_config.enable_prefix_caching,
                "sleeps": config.model_config.enable_sleep_mode,
            }
            print("found", json.dumps(found))


if __name__ == "__main__":
    main()
