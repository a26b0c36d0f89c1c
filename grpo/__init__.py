"""GRPO for language-model agents on Gymnasium environments: a standalone trainer with a LoRA policy served by vLLM.

Read it in the order a trajectory travels: ``envs`` (what an episode is), ``chat`` (messages to token ids),
``policy`` (token ids to sampled ids), ``rollout`` (the loop that joins them), ``groups`` (which tasks, in which
order), ``rewards`` and ``advantages``, then the torch half: ``segments``, ``loss``, ``engine``, ``checkpoint``,
``trainer``.

Importing this package imports no torch.
"""
