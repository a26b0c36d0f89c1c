"""The doctor's checks that load the model and start vLLM: is what is sampled what is trained?

They run in order and share what the ones before have made; where one has failed, those that need it are skipped.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grpo.chat import Chat, chat_for, load_tokenizer, next_prompt
from grpo.config import TrainConfig
from grpo.doctor.checks import Check, Result, Trouble, examine
from grpo.doctor.memory import check_memory
from grpo.learner.engine import LossSpec
from grpo.learner.engines import make_engine
from grpo.learner.segments import Segment
from grpo.machine.dtype import computing_dtype
from grpo.machine.memory import available_gib
from grpo.machine.models import ResolvedModel, resolve_model
from grpo.serving.adapters import AdapterStore
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.server import PolicyServer, make_servers
from grpo.serving.turns import turns_of
from grpo.types import Message, SampledTurn

SAMPLED_TOKENS = 48
GAP_RATIO = 3.0
"""So many times nearer to the trainer with its adapter than without must the sampler be. Server and trainer round
differently, the more so the stranger the adapter: a random one is off by about 0.05 nats a token with it and 0.3
without (CPU, bfloat16). A server that samples the base model has it the other way round."""

ADAPTER_RATE = 0.002
"""Adam's first step moves every weight of the adapter so far: what is sampled with it is 0.6 nats a token from the base
model (SmolLM2-135M)."""

ANSWER = "Blue, grey and brown."
PROMPT: list[Message] = [
    {"role": "system", "content": "You answer briefly."},
    {"role": "user", "content": "Name three colours of the rainbow."},
]


@dataclass(slots=True)
class ModelDoctor:
    """What the checks share."""

    config: TrainConfig
    _model: ResolvedModel | None = None
    _chat: Chat | None = None
    _servers: Fleet | None = None
    _log: Path = field(default_factory=Path)

    def examine(self) -> Iterator[Result]:
        """Run the checks; the server is gone when the last result has been taken."""
        needed: tuple[Check, ...] = (
            ("model", self.check_model),
            ("computing dtype", self.check_dtype),
            ("memory", self.check_memory),
            ("chat template", self.check_template),
            ("vLLM", self.check_server),
            ("adapter", self.check_adapter),
        )
        with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as scratch:
            self._log = Path(scratch) / "server.log"
            failed = ""
            try:
                for name, check in needed:
                    if failed:
                        yield Result(name, "skipped", f"needs the check of the {failed}")
                        continue
                    (result,) = examine([(name, check)])
                    if result.status == "failed" and name not in ("memory", "chat template"):
                        failed = name
                    yield result
            finally:
                if self._servers is not None:
                    self._servers.stop()

    def check_model(self) -> str:
        """The model is there, and a chat format fits it."""
        self._model = resolve_model(self.config.model)
        config = self.config
        rollout = config.rollout
        self._chat = chat_for(load_tokenizer(self._model.path), rollout.history, rollout.chat_template_kwargs)
        return f"{self.config.model} at {self._model.path}"

    def check_dtype(self) -> str:
        """What learner and sampler compute in, and why."""
        assert self._model is not None, "the model was found"
        return str(computing_dtype(self.config.dtype, self.config.device, self._model.path))

    def check_memory(self) -> str:
        """The free memory is enough for trainer and vLLM; on a CPU alone."""
        assert self._model is not None, "the model was found"
        dtype = computing_dtype(self.config.dtype, self.config.device, self._model.path).dtype
        config = self.config.model_copy(update={"dtype": dtype})
        return check_memory(config, self._model.path, available_gib()) or "not computed for this device or model"

    def check_template(self) -> str:
        """Prompt, turn and what follows, put together from their ids, equal the whole conversation's ids."""
        assert self._chat is not None, "the model was found"
        if self.config.rollout.history == "append":
            return "not compared: rollout.history = append keeps turns as they were, whatever the template would write"
        return check_round_trip(self._chat)

    def check_server(self) -> str:
        """vLLM starts, and each server samples one token."""
        assert self._model is not None, "the model was found"
        servers = self._servers = Fleet(make_servers(self.config, self._model.path, self._log))
        servers.start()
        seconds = servers.wait_ready()
        ids = [self._sample(server, server.model, 1).ids[0] for server in servers.servers]
        return f"ready after {seconds:.0f} s at {servers.url}; sampled one token ({', '.join(map(str, ids))})"

    def check_adapter(self) -> str:
        """A published adapter is what samples: its logprobs are the trainer's, and not the base model's."""
        assert self._servers is not None, "the servers run"
        assert self._model is not None, "the model was found"
        assert self._chat is not None, "the model was found"
        engine = make_engine(self.config, self._model.path)
        shared = turns_of(engine, self._servers)
        shared.train()
        engine.forward_backward([self._row(self._chat.encode(ANSWER))], LossSpec("imitation"))
        engine.optim_step(ADAPTER_RATE, 1.0)
        shared.sample()
        with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as folder:
            name = AdapterStore(self._servers, Path(folder)).publish(engine.save_adapter, 0).name
            turns = {server.url: self._sample(server, name, SAMPLED_TOKENS) for server in self._servers.servers}
        figures = ""
        shared.train()
        for url, turn in turns.items():
            (trained,) = engine.forward_backward([self._row(turn.ids)], LossSpec("imitation", kl_coef=1.0))
            gap, gap_to_base = (_gap(turn, values) for values in (trained.logprobs, trained.reference_logprobs))
            figures = f"mean |sampler - trainer| is {gap:.4f} nats a token with the adapter, {gap_to_base:.4f} without"
            if gap * GAP_RATIO <= gap_to_base:
                continue
            raise Trouble(
                f"{figures}: vLLM at {url} does not sample the published adapter",
                "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 where it sees the same files; on "
                "a CPU, install this project (pip install), so that vLLM finds its plugin grpo_cpu_lora",
            )
        return figures

    def _row(self, ids: list[int]) -> Segment:
        """An answer to ``PROMPT``."""
        before = self._prompt_ids()
        mask = [False] * len(before) + [True] * len(ids)
        return Segment([*before, *ids], mask, [0.0] * len(mask), 1.0)

    def _prompt_ids(self) -> list[int]:
        assert self._chat is not None, "the model was found"
        return self._chat.prompt_ids(PROMPT, [])

    def _sample(self, server: PolicyServer, name: str, tokens: int) -> SampledTurn:
        assert self._chat is not None, "the chat format was found"
        stop_token_ids = self._chat.stop_token_ids

        async def sample() -> SampledTurn:
            async with Connection(Fleet([server])) as connection:
                policy = CompletionsPolicy(connection, name, stop_token_ids)
                return await policy.sample(self._prompt_ids(), SamplingParams(1.0), max_tokens=tokens, seed=1)

        return asyncio.run(sample())


def check_round_trip(chat: Chat) -> str:
    """Two turns, appended id for id, against the same conversation written at once.

    Raises:
        Trouble: They differ.
    """
    history: list[Message] = [*PROMPT, {"role": "assistant", "content": "Red, green and blue."}]
    new: list[Message] = [{"role": "user", "content": "And a fourth?"}]
    turn = [*chat.encode(history[-1]["content"]), chat.stop_token_ids[0]]
    appended, rewritten = next_prompt(chat, chat.prompt_ids(PROMPT, []) + turn, history, new, [])
    whole = chat.prompt_ids([*history, *new], [])
    if appended != whole:
        at = next((i for i, (a, b) in enumerate(zip(appended, whole, strict=False)) if a != b), len(appended))
        raise Trouble(
            f"the prompt of the second turn has {len(appended)} ids, the template writes {len(whole)}; they differ "
            f"from id {at} on",
            "use a model whose chat template only appends, or report the template",
        )
    return f"{len(whole)} ids, put together and written at once, are the same" + (" (rewritten)" if rewritten else "")


def _gap(turn: SampledTurn, logprobs: list[float]) -> float:
    return sum(abs(a - b) for a, b in zip(turn.logprobs, logprobs, strict=True)) / len(logprobs)
