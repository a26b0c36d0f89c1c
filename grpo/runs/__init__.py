"""What a run leaves on disk: its directory, checkpoints, an unfinished step, model cards, trackers, exports."""
