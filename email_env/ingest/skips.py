"""The list of what a build left out: a JSONL file, one skipped message per line with its `source` and `reason`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from email_env.errors import BuildError
from email_env.ingest.atomic import replacing
from email_env.mail import Skip


@contextmanager
def skip_list(path: Path | None) -> Iterator[Callable[[Skip], None] | None]:
    """Yields the `on_skip` of `build_database`. `path` is written if the block ends well; None writes no list.

    Raises:
        BuildError: `path` cannot be written.
    """
    if path is None:
        yield None
        return
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as handle:

            def note(skip: Skip) -> None:
                line = {"source": skip.source, "reason": skip.reason.value}
                handle.write(json.dumps(line, ensure_ascii=False) + "\n")

            yield note
    except OSError as error:
        raise BuildError(f"Cannot write the list of skipped mail {str(path)!r}: {error}.") from error
