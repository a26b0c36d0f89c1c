"""vLLM as a process of ours, its adapters, and the policy that samples from it."""
