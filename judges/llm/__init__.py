"""Calls of an LLM: client, cache, limits, cost, record, secrets."""
