"""Whatever can play an episode: functions, programs, models behind a URL, scripted and trained policies."""
