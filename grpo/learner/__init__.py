"""Rows of token ids to gradients: advantages, segments, losses, updates, and the engine that computes them."""
