"""A small real policy server for tests: vLLM's endpoints over a tiny model, one request at a time, so to the bit the same.

What a request is answered depends on the adapter's weights, the prompt ids and the request's seed alone.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

_LOADING = threading.Lock()
"""transformers loads one model at a time: meanwhile it changes settings of the whole process."""


class TinyPolicyServer:
    """Serves ``model_folder`` and every adapter that it is told to load, in float32."""

    def __init__(self, model_folder: Path):
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        self._load = lambda path: PeftModel.from_pretrained(
            AutoModelForCausalLM.from_pretrained(str(model_folder), dtype=torch.float32), path
        ).eval()
        self._models: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.requests = 0
        handler = type("Handler", (_Handler,), {"policy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> TinyPolicyServer:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if path == "/v1/load_lora_adapter":
                with _LOADING:
                    self._models[body["lora_name"]] = self._load(body["lora_path"])
            elif path == "/v1/unload_lora_adapter":
                del self._models[body["lora_name"]]
            elif path == "/v1/completions":
                self.requests += 1
                return {"choices": [self._sample(self._models[body["model"]], body)]}
        return {}

    @torch.no_grad()
    def _sample(self, model: Any, body: dict[str, Any]) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(body["seed"])
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < body["max_tokens"]:
            logits = model(input_ids=torch.tensor([body["prompt"] + ids])).logits[0, -1].float()
            spread = torch.log_softmax(logits / (body["temperature"] or 1.0), -1)
            drawn = torch.multinomial(spread.exp(), 1, generator=generator) if body["temperature"] else spread.argmax()
            ids.append(int(drawn))
            logprobs.append(float(spread[ids[-1]]))
            if ids[-1] in body["stop_token_ids"]:
                break
        reason = "stop" if ids[-1] in body["stop_token_ids"] else "length"
        known = {"prompt_token_ids": body["prompt"], "token_ids": ids}
        return {**known, "logprobs": {"token_logprobs": logprobs}, "finish_reason": reason}


class _Handler(BaseHTTPRequestHandler):
    policy: TinyPolicyServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply({"data": [{"id": "base"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._reply(self.policy.answer(self.path, body))

    def _reply(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # who asked was killed

    def log_message(self, format: str, *args: Any) -> None:
        pass
