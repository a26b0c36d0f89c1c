"""What ``tests.processes`` imports once for all of its children."""

import torch  # noqa: F401
from peft import LoraConfig, get_peft_model  # noqa: F401
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM  # noqa: F401

import grpo.cli.train
import grpo.learner.local_engine
import grpo.report
import grpo.training.trainer  # noqa: F401
