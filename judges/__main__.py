"""``python -m judges`` is ``grpo-judge``, also where that script is not on the path."""

from judges.cli import main

if __name__ == "__main__":
    main(prog_name="python -m judges")
