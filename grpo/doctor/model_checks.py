"""The doctor's checks that load the model and start vLLM: is what is sampled what is trained?

They run in order and share what the ones before have made; where one has failed, those that need it are skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grpo.chat import Chat
from grpo.config import TrainConfig
from grpo.devices.memory import cpu_needs
from grpo.devices.shape import ModelShape
from grpo.doctor.checks import Check, Result, Unneeded, examine
from grpo.learner.engine import LossSpec
from grpo.learner.segments import Segment
from grpo.machine.hardware import available_gib
from grpo.machine.models import ResolvedModel, resolve_model
from grpo.machine.probe import computing_dtype
from grpo.serving.server import Servers
from grpo.serving.sleep_mode import Turns
from grpo.training.engines import backend_of
from grpo.training.first_look import PROMPT, check_before_start, look_at_servers
from judges.common.files import scratch_folder

ADAPTER_RATE = 0.002
"""Adam's first step moves every weight of the adapter so far: what is sampled with it is 0.6 nats a token from the base
model (SmolLM2-135M)."""

ANSWER = "Blue, grey and brown."


@dataclass(slots=True)
class ModelDoctor:
    """What the checks share."""

    config: TrainConfig
    _model: ResolvedModel = field(init=False)
    _chat: Chat = field(init=False)
    _servers: Servers | None = None
    _log: Path = field(default_factory=Path)

    def examine(self) -> Iterator[Result]:
        """Run the checks; the server is gone when the last result has been taken."""
        needed: tuple[Check, ...] = (
            ("model", self.check_model),
            ("computing dtype", self.check_dtype),
            ("memory", self.check_memory),
            ("vLLM", self.check_server),
            ("adapter", self.check_adapter),
        )
        with scratch_folder("grpo-doctor") as scratch:
            self._log = scratch / "server.log"
            failed = ""
            try:
                for name, check in needed:
                    if failed:
                        yield Result(name, "skipped", f"needs the check of the {failed}")
                        continue
                    (result,) = examine([(name, check)])
                    if result.status == "failed" and name != "memory":
                        failed = name
                    yield result
            finally:
                if self._servers is not None:
                    self._servers.stop()

    def check_model(self) -> str:
        """The model is there and can be trained, and a chat format fits it."""
        self._model = resolve_model(self.config.model)
        self._chat = check_before_start(self.config, self._model.path)
        return f"{self.config.model} at {self._model.path}"

    def check_dtype(self) -> str:
        """What learner and sampler compute in, and why."""
        return str(computing_dtype(self.config.dtype, self.config.device, self._model.path))

    def check_memory(self) -> str:
        """The free memory may be enough for trainer and vLLM; on a CPU alone."""
        if self.config.device != "cpu":
            raise Unneeded("the check of the GPU memory has it")
        dtype = computing_dtype(self.config.dtype, "cpu", self._model.path).dtype
        config = self.config.model_copy(update={"dtype": dtype})
        return cpu_needs(config, ModelShape.read(self._model.path)).check(available_gib())

    def check_server(self) -> str:
        """vLLM starts, and answers."""
        servers = self._servers = backend_of(self.config).servers(self._model.path, self._log, lambda _line: None)
        servers.start()
        return f"ready after {servers.wait_ready():.0f} s at {servers.url}"

    def check_adapter(self) -> str:
        """A published adapter is what samples: its logprobs are the trainer's, after a step that moves them."""
        assert self._servers is not None, "the servers run"
        backend, chat = backend_of(self.config), self._chat
        engine = backend.engine(self._model.path)
        shared = Turns(engine, self._servers)
        shared.train()
        prompt, answer = chat.prompt_ids(PROMPT, []), chat.encode(ANSWER)
        mask = [False] * len(prompt) + [True] * len(answer)
        engine.forward_backward([Segment([*prompt, *answer], mask, [0.0] * len(mask), 1.0)], LossSpec("imitation"))
        engine.optim_step(ADAPTER_RATE, 1.0)
        shared.sample()
        with scratch_folder("grpo-doctor") as folder:
            sampler = backend.sampler(self._servers, folder, chat.stop_token_ids)
            sampler.publish(engine.save_adapter, 0)
            where = sampler, self._servers, engine, chat, self._model.path
            gap = look_at_servers(*where, version=0, max_gap=self.config.loss.max_gap, between=shared.train)
        return f"|sampler - trainer| is {gap:.2g} nats a token at most with an adapter that was moved"
