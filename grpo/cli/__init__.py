"""The command lines, one file each; pyproject.toml names them as console scripts."""
