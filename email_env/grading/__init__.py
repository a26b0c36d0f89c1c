"""What an episode is worth: the rule for right answers, and ART-E's reward tiers."""
