"""Training and sampling on a server that speaks the Tinker API (experimental)."""
