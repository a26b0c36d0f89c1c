"""Engines: what computes. ``base`` is the protocol that the trainer speaks; ``local`` is one process with peft."""
