"""Is one answer right, given a reference: a rule where it is sure, else an LLM."""
