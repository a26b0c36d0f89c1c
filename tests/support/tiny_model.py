"""A tiny random model with a tokenizer of bytes, and an engine that trains it."""

from pathlib import Path
from typing import Any


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
    """``tiny_model_folder`` with a tokenizer: one id a byte, and ChatML's marks; it has no chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny_model_folder(folder)
    vocabulary = {character: at for at, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>").save_pretrained(str(folder))
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


def plain_logprobs(engine: Any, row: Any) -> Any:
    """Log-probabilities of a row's actions, by a forward pass of this row alone."""
    import torch

    logits = engine.model(input_ids=torch.tensor([row.ids])).logits[0, :-1]
    logprobs = torch.log_softmax(logits.float(), -1).gather(1, torch.tensor(row.ids[1:])[:, None])[:, 0]
    return logprobs[torch.tensor(row.action_mask[1:])]


def tiny_kind(folder: Path, kind: str, images: dict[str, Any] | None = None, **settings: Any) -> Path:
    """A random model of a kind that transformers knows, in float32 with 264 ids, saved without a tokenizer.

    ``images`` are settings of its part for images, where the kind has one.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    sizes = {"vocab_size": 264, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "pad_token_id": 0, "initializer_range": 0.1}
    torch.manual_seed(0)
    settings = {**sizes, **heads, "max_position_embeddings": 512, **settings}
    if images is None:
        AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).save_pretrained(str(folder))
    else:
        both = {"text_config": settings, "vision_config": images | {"out_hidden_size": settings["hidden_size"]}}
        AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **both)).save_pretrained(str(folder))
    return folder


def edit_weights(path: Path, edited: dict[str, list[Any] | None], *, pickled: bool = False) -> None:
    """Give a safetensors file these weights, too, or take out those that are None; torch may pickle them instead."""
    import torch
    from safetensors.torch import load_file, save_file

    new = {name: None if value is None else torch.tensor(value) for name, value in edited.items()}
    weights = {name: value for name, value in (load_file(path) | new).items() if value is not None}
    if pickled:
        torch.save(weights, path.with_name("pytorch_model.bin"))
        path.unlink()
    else:
        save_file(weights, path, {"format": "pt"})


def tiny_adapter(base: Path, folder: Path, **settings: Any) -> Path:
    """A random adapter of peft's for the model in ``base``; B is not zero."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from grpo.devices.shape import LINEAR_LAYERS

    lora = {"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM", "target_modules": LINEAR_LAYERS}
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), LoraConfig(**lora | settings)
    )
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data += torch.randn(weight.shape, generator=generator) * 0.05
    model.save_pretrained(folder)
    return folder
