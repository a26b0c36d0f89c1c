"""Support of scripts/bench_ruler."""
