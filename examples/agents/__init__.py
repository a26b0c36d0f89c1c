"""Agents of other frameworks, evaluated by grpo-eval: each is one function."""
