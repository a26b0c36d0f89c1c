"""GRPO for language-model agents on Gymnasium environments: a standalone trainer with a LoRA policy served by vLLM.

Read it room by room, in the order in which an episode travels: ``envs`` (what speaks), ``chat`` (messages to token
ids), ``serving`` (token ids to sampled ids), ``episodes`` (played, marked, kept, summed up), ``agents`` (who answers),
``learner`` (advantages, rows, loss, update), ``runs`` (what is kept), ``training`` (all of it, step by step).
docs/how-it-works.md follows one question.

Importing this package imports no torch.
"""
