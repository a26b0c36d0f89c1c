"""Which GPU trains, which samples, and the memory each may take: decided from numbers, before anything starts."""
