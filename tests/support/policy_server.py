"""Policy servers for tests: vLLM's endpoints, without a model or over a tiny one.

They keep vLLM's rules on adapters (no name twice, a whole folder, known names only) and answer one request at a time.
They can be stopped with requests under way, and started again on their port without adapters, as a killed vLLM is.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo.config import TrainConfig, load_config
from tests.support.envs import LETTER_ENV
from tests.support.http_stub import HttpStub, Request, Response

Body = dict[str, Any]


class PolicyStub(HttpStub):
    """Has the base model, ``models``, and every adapter that it is told to load.

    Attributes:
        sample: What a request for a completion is answered, as token ids.
        asked: The bodies of these requests.
        loaded: Names and folders of the adapters.
        refuses_adapters: Says 500 to one that is to be loaded.
        has_adapter_routes: vLLM has them only where it is told to.
    """

    def __init__(self, sample: Callable[[Body], list[int]] = lambda _: [7], models: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.sample = sample
        self.models = models
        self.asked: list[Body] = []
        self.loaded: dict[str, str] = {}
        self.refuses_adapters = False
        self.has_adapter_routes = True
        self._lock = threading.RLock()

    def stop(self) -> None:
        super().stop()
        self.loaded.clear()

    def answer(self, request: Request) -> Response:
        if request.method == "GET":
            names = ["base", *self.models, *self.loaded] if request.path == "/v1/models" else []
            return Response(
                {"data": [{"id": name, "parent": "base" if name in self.loaded else None} for name in names]}
            )
        with self._lock:
            if not self.running:  # it was stopped while this request waited
                raise ConnectionAbortedError
            if request.path.endswith("_lora_adapter") and not self.has_adapter_routes:
                return Response({"detail": "Not Found"}, 404)
            if request.path == "/v1/load_lora_adapter":
                return self.load(request.body["lora_name"], request.body["lora_path"])
            if request.path == "/v1/unload_lora_adapter":
                return self.unload(request.body["lora_name"])
            if request.body["model"] not in {"base", *self.models, *self.loaded}:
                return Response({"error": f"The model `{request.body['model']}` does not exist."}, 404)
            if request.body["prompt"] == [0] and "stop_token_ids" not in request.body:  # whether it is well
                return completion(request.body, [7], [-0.5], "length")
            return self.complete(request.body)

    def load(self, name: str, path: str) -> Response:
        if self.refuses_adapters:
            return Response("no room for another adapter", 500)
        if name in self.loaded:
            return Response(f"The lora adapter '{name}' has already been loaded.", 400)
        if not (Path(path) / "adapter_config.json").exists():
            return Response(f"No adapter found for LoRA '{name}'", 404)
        self.loaded[name] = path
        return Response("ok")

    def unload(self, name: str) -> Response:
        if self.loaded.pop(name, None) is None:
            return Response(f"The lora adapter '{name}' cannot be found.", 404)
        return Response("ok")

    def complete(self, body: Body) -> Response:
        self.asked.append(body)
        ids = self.sample(body)
        return completion(body, ids, [-0.5] * len(ids), "stop")


def completion(body: Body, ids: list[int], logprobs: list[float], reason: str) -> Response:
    choice = {"token_ids": ids, "prompt_token_ids": body["prompt"], "finish_reason": reason}
    return Response({"choices": [{**choice, "logprobs": {"token_logprobs": logprobs}}]})


def save_nothing(folder: Path) -> None:
    """Makes a folder that is an adapter for all who do not look into its files."""
    folder.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).write_text("{}")


_LOADING = threading.Lock()
"""transformers loads one model at a time: meanwhile it changes settings of the whole process."""


def tiny_run(model: Path, *urls: str, **changed: Any) -> TrainConfig:
    """Settings of a run that a small server samples for: short turns, a learner in float32 on one thread."""
    settings = {
        "env": LETTER_ENV,
        "model": str(model),
        "server.urls": urls,
        "threads": 1,
        "dtype": "float32",
        "rollout.groups_per_step": 2,
        "rollout.group_size": 3,
        "rollout.max_turn_tokens": 8,
        "rollout.max_tokens": 400,
        "optimizer.learning_rate": 1e-2,
        "loss.max_gap": 5.0,
        "warm_start.steps": 2,
        "eval.scenarios": 0,
        "eval.baselines": "none",
    }
    return load_config(None, settings | changed)


class TinyPolicyServer(PolicyStub):
    """Serves ``model_folder`` in float32, to the bit the same.

    What a request is answered depends on the adapter's weights, the prompt ids and the request's seed alone.
    """

    def __init__(self, model_folder: Path):
        super().__init__()
        self.model_folder = model_folder
        self._models: dict[str, Any] = {}

    def load(self, name: str, path: str) -> Response:
        from peft import PeftModel

        with _LOADING:
            self._models[name] = PeftModel.from_pretrained(self._base_model(), path).eval()
        return super().load(name, path)

    def _base_model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(str(self.model_folder), dtype=torch.float32).eval()

    def unload(self, name: str) -> Response:
        del self._models[name]
        return super().unload(name)

    def complete(self, body: Body) -> Response:
        import torch

        self.asked.append(body)
        if body["model"] == "base":
            with _LOADING:
                self._models.setdefault("base", self._base_model())
        model, generator = self._models[body["model"]], torch.Generator().manual_seed(body["seed"])
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < body["max_tokens"]:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([body["prompt"] + ids])).logits[0, -1].float()
            spread = torch.log_softmax(logits / (body["temperature"] or 1.0), -1)
            drawn = torch.multinomial(spread.exp(), 1, generator=generator) if body["temperature"] else spread.argmax()
            ids.append(int(drawn))
            logprobs.append(float(spread[ids[-1]]))
            if ids[-1] in body["stop_token_ids"]:
                break
        return completion(body, ids, logprobs, "stop" if ids[-1] in body["stop_token_ids"] else "length")
