"""Whether a judge can be reached at all: a wrong name, key or address is not tried on thousands of groups."""

from __future__ import annotations

from judges.errors import ContextOverflow, JudgeCallError, JudgeError, MalformedVerdict

FIRST_FAILURES = 8
"""Where so many calls failed and none was answered, the judge is set up wrong."""


class FirstCalls:
    """Counts failures until the first answer."""

    def __init__(self) -> None:
        self._failures = 0
        self._was_answered = False

    @property
    def have_failed(self) -> bool:
        """Whether there is no use in asking on."""
        return self._failures >= FIRST_FAILURES and not self._was_answered

    def add(self, error: JudgeError | None) -> None:
        """Count a verdict, or the error in its place. A malformed answer is one; a prompt too long says nothing."""
        if error is None or isinstance(error, MalformedVerdict):
            self._was_answered = True
        elif isinstance(error, JudgeCallError) and not isinstance(error, ContextOverflow):
            self._failures += 1
