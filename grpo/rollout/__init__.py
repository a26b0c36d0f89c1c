"""Tasks to rewarded groups of trajectories."""
