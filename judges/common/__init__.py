"""What all three packages stand on: files, text, secrets, tool calls of a turn. It imports nothing of ours."""
