"""Small real parts for tests: a message env, a scripted policy, a tiny random model with a byte tokenizer."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from grpo.chat.turns import hermes_turn
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Group, SampledTurn

WORD_ENV = "tests.fakes:WordEnv-v0"
PICTURE_ENV = "tests.fakes:Pixels-v0"


class WordEnv(gymnasium.Env):
    """Say the secret word within three turns. It speaks the messages contract and imports nothing of ours."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)
    words = ("falcon", "maple", "harbor", "quartz")

    def __init__(self, split: str = "train", bonus: float = 0.0):
        self.split = split
        self.bonus = bonus
        self.scripted_policies = {"oracle": WordOracle}

    def scenario_ids(self) -> list[str]:
        return [f"{self.split}-{word}" for word in self.words]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        ids = self.scenario_ids()
        scenario = (options or {}).get("scenario_id") or ids[int(self.np_random.integers(len(ids)))]
        self.word = scenario.split("-", 1)[1]
        self.turns = 0
        text = f"The word begins with {self.word[0]}."
        info = {
            "messages": [{"role": "system", "content": "Guess the word."}, {"role": "user", "content": text}],
            "tools": [],
            "scenario_id": scenario,
            "metrics": self._metrics(0.0),
        }
        return text, info

    def step(self, action: str):
        self.turns += 1
        right = self.word in action
        truncated = not right and self.turns >= 3
        text = "right" if right else "wrong, guess again"
        info = {
            "messages": [{"role": "tool", "content": text}],
            "metrics": self._metrics(float(right)),
            "error": "no_tool_call" if "?" in action else "",
            "stop_reason": "answer" if right else "max_turns" if truncated else "",
        }
        return text, (1.0 + self.bonus if right else 0.0), right, truncated, info

    def _metrics(self, success: float) -> dict[str, float]:
        return {"success": success, "turns": float(self.turns), "difficulty_easy": 1.0}


class WordOracle:
    """Knows the word."""

    def __init__(self, env: WordEnv, seed: int):
        self.env = env

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return f"It is {self.env.word}."


class Pixels(gymnasium.Env):
    """Shows pictures, as many of Gymnasium's envs do."""

    observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return np.zeros((64, 64, 3), np.uint8), {}


TALK_ENV = "tests.fakes:TalkEnv-v0"


class TalkEnv(gymnasium.Env):
    """Three turns with one tool, whatever is said: answers twice in the role ``role`` with ``says``, then ends."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)
    opening = ({"role": "system", "content": "Find mail."}, {"role": "user", "content": "Where is the Atlas review?"})
    tools = (
        {
            "type": "function",
            "function": {
                "name": "search_inbox",
                "description": "Search.",
                "parameters": {"type": "object", "properties": {"keywords": {"type": "array"}}},
            },
        },
    )

    def __init__(self, role: str = "user", says: str = "No."):
        self.role = role
        self.says = says

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.turns = 0
        return "", {"messages": list(self.opening), "tools": list(self.tools), "metrics": {}}

    def step(self, action: str):
        self.turns += 1
        answer = {"role": self.role, "content": f"{self.turns}. {self.says}"}
        return "", 1.0, self.turns == 3, False, {"messages": [answer], "metrics": {}, "error": ""}


if "TalkEnv-v0" not in gymnasium.registry:
    gymnasium.register("TalkEnv-v0", entry_point="tests.fakes:TalkEnv")
if "WordEnv-v0" not in gymnasium.registry:
    gymnasium.register("Pixels-v0", entry_point="tests.fakes:Pixels")
    gymnasium.register("WordEnv-v0", entry_point="tests.fakes:WordEnv")


LETTER_ENV = "tests.fakes:LetterEnv-v0"


class LetterEnv(gymnasium.Env):
    """Two turns, rewarded with the share of characters that follow the scenario's letter: random text spreads."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)

    def __init__(self, split: str = "train"):
        self.split = split
        self.scripted_policies = {"oracle": LetterOracle}

    def scenario_ids(self) -> list[str]:
        return [f"{self.split}-{letter}" for letter in "aeinst"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        scenario = (options or {}).get("scenario_id") or self.scenario_ids()[0]
        self.letter, self.turns = scenario[-1], 0
        messages = [{"role": "user", "content": f"Write after {self.letter}."}]
        return "", {"messages": messages, "tools": [], "scenario_id": scenario, "metrics": {"turns": 0.0}}

    def step(self, action: str):
        self.turns += 1
        reward = sum(character > self.letter for character in action) / (1 + len(action))
        info = {"messages": [{"role": "user", "content": "More."}], "metrics": {"turns": float(self.turns)}}
        return "", reward, self.turns == 2, False, info


class LetterOracle:
    """Writes z."""

    def __init__(self, env: LetterEnv, seed: int):
        self.letters = "z" * (1 + seed % 3)

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return self.letters


if "LetterEnv-v0" not in gymnasium.registry:
    gymnasium.register("LetterEnv-v0", entry_point="tests.fakes:LetterEnv")


def by_place(group: Group) -> list[float]:
    """A reward that spreads in every group, whatever was sampled: 0, 1, 2, ..."""
    return [float(trajectory.sample_index) for trajectory in group.trajectories]


class ByteChat:
    """A chat format over bytes: every id is one byte plus two specials, so tests can be read by eye."""

    END, START = 256, 257
    stop_token_ids = (256,)

    def __init__(self) -> None:
        self.stop_token_ids = [self.END]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def turn_text(self, message: dict[str, Any], tools: list[dict[str, Any]]) -> str:
        return hermes_turn(message)

    def prompt_ids(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        return [i for m in messages for i in (self.START, *self.encode(m["content"]), self.END)] + [self.START]

    def delta_ids(self, history: Any, new: list[dict[str, Any]], tools: Any) -> list[int]:
        return self.prompt_ids(new, [])

    def rewritten_ids(self, history: Any, new: Any, tools: Any) -> None:
        return None

    def close_ids(self, sampled_ids: list[int]) -> list[int]:
        return [] if sampled_ids and sampled_ids[-1] == self.END else [self.END]

    def decode(self, sampled_ids: list[int]) -> str:
        return bytes(i for i in sampled_ids if i < 256).decode(errors="replace")


def always(policy: Policy) -> Any:
    """Gives out this policy as every version."""
    return lambda _version: nullcontext(policy)


class ScriptedPolicy(Policy):
    """Says the given turns in order, whatever it is asked; records the prompts it saw."""

    version = 3

    def __init__(self, chat: Any, turns: list[str], *, ended: bool = True):
        self.chat = chat
        self.turns = turns
        self.ended = ended
        self.prompts: list[list[int]] = []
        self._said: dict[int, int] = {}

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        self.prompts.append(list(prompt_ids))
        turn = sum(1 for p in self.prompts[:-1] if prompt_ids[: len(p)] == p)
        end = [self.chat.stop_token_ids[0]] if self.ended else []
        whole = [*self.chat.encode(self.turns[turn % len(self.turns)]), *end]
        ids = whole[:max_tokens]
        return SampledTurn(ids, [-0.5] * len(ids), "stop" if self.ended and ids == whole else "length")


def tiny_model_folder(folder: Path, *, vocab: int = 264, seed: int = 0, layers: int = 2) -> Path:
    """A random Llama in float32 with 264 ids, saved as transformers saves it (no tokenizer)."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(str(folder))
    return folder


def tiny_chat_model_folder(folder: Path) -> Path:
    """``tiny_model_folder`` with a tokenizer: one id a byte, and ChatML's marks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny_model_folder(folder)
    vocabulary = {character: at for at, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>").save_pretrained(str(folder))
    return folder


def tiny_chat_model(folder: Path) -> Path:
    """A tiny random model with a tokenizer of bytes and ChatML's marks; it has no chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny_model_folder(folder)
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytes_only = Tokenizer(models.BPE(vocabulary, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    bytes_only.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    PreTrainedTokenizerFast(tokenizer_object=bytes_only, eos_token="<|im_end|>").save_pretrained(folder)
    return folder


def save_state(engine: Any, folder: Path) -> None:
    """What a checkpoint has of an engine."""
    engine.save_adapter(folder)
    for name, content in engine.state().items():
        (folder / name).write_bytes(content)


def tiny_engine(folder: Path, **options: Any):
    """A float32 engine on a tiny model, with a LoRA that is not zero."""
    import torch

    from grpo.learner.local_engine import LocalEngine
    from grpo.learner.lora_model import LoraSpec

    made = LocalEngine(folder, LoraSpec(rank=4, alpha=8), seed=1, **options)
    generator = torch.Generator().manual_seed(2)
    for parameter in made.parameters:
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.05
    return made
