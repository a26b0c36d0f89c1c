"""The command lines, one file each; pyproject.toml names them as console scripts, and ``python -m grpo`` has them."""

import sys

if sys.argv[0] == "-m":  # while Python looks for a module of this room to run
    sys.exit("the commands are run by python -m grpo COMMAND; python -m grpo --help names them")
