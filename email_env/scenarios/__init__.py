"""Questions about the mail: what a scenario is, where sets of them come from, and which ones a database can serve."""
