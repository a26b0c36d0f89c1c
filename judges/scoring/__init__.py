"""RULER: the trajectories of a group scored against each other."""
