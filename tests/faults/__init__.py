"""Faults that are made, and runs that last: programs of their own, outside ``scripts/test`` (`scripts/faults`)."""
