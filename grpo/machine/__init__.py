"""What the machine has and how its processes start: processors, memory, models on disk, user code."""
