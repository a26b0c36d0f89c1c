"""Envs of other ecosystems, by the table in `grpo.envs.registry`. Their wire is spoken; no package is needed."""
