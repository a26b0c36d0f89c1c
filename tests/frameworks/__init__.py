"""Agents of frameworks for `scripts/train_frameworks`, and what it checks; pytest runs none of it."""
