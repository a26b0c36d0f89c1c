"""The run: warm start, steps of GRPO, held-out evaluations."""
