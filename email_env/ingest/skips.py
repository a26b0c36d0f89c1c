"""The list of what a build left out: a JSONL file, one skipped message per line with its `source` and `reason`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from email_env.errors import BuildError
from email_env.mail import Skip
from judges.common.files import replacing

_KEYS = {"source", "reason"}
_MAX_LINE_BYTES = 1 << 16


@contextmanager
def skip_list(path: Path | None) -> Iterator[Callable[[Skip], None]]:
    """Yields the `on_skip` of `build_database`. A file is written if the block ends well; None writes no list.

    A pipe or a device is written to as it is.

    Raises:
        BuildError: `path` cannot be written, or is there and is no such list.
    """
    if path is None:
        yield lambda skip: None
        return
    is_stream = path.exists() and not path.is_file()
    try:
        if path.is_file() and not _is_list(path):
            raise BuildError(f"{str(path)!r} is there and is no list of skipped mail. Remove it, or name another file.")
        with (
            nullcontext(path) if is_stream else replacing(path) as target,
            target.open("w", encoding="utf-8") as handle,
        ):

            def note(skip: Skip) -> None:
                line = {"source": skip.source, "reason": skip.reason.value}
                handle.write(json.dumps(line, ensure_ascii=False) + "\n")

            yield note
    except OSError as error:
        raise BuildError(f"Cannot write the list of skipped mail {str(path)!r}: {error}.") from error


def _is_list(path: Path) -> bool:
    """Whether a file is empty or begins with a line of such a list."""
    with path.open("rb") as file:
        line = file.readline(_MAX_LINE_BYTES)
    try:
        first = json.loads(line) if line else dict.fromkeys(_KEYS)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.keys() == _KEYS
