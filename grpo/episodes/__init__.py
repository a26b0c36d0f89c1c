"""An episode of any agent: who plays it, why it ended, how it is marked, kept and summed up."""
