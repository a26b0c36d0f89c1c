"""Agents of frameworks for `scripts/train_frameworks`, and what it checks."""
