"""Exceptions of judges. Each is also a standard-library type, so callers that do not know this tree can still catch it.

    JudgeError
    ├── JudgeInputError        (ValueError)       what was handed in cannot be judged; nothing was sent
    │   └── PromptTooLong                          no cut brings it under max_prompt_tokens
    ├── JudgeCallError         (ConnectionError)  the judge could not be reached, or refused the request
    │   ├── ContextOverflow                       it says that the prompt is longer than its context
    │   └── JudgeTimeoutError  (TimeoutError)     it did not answer in time
    ├── SpendLimitReached      (RuntimeError)     the session's money is spent; the judge was not asked
    └── MalformedVerdict       (ValueError)       it answered, but the answer is no verdict on these trajectories

A failed judgement is always one of these, never a zero score. No message holds an API key.
"""


class JudgeError(Exception):
    """Base of every error that judges raises on purpose."""


class JudgeInputError(JudgeError, ValueError):
    """Messages, tools or settings that cannot be judged. Raised before anything is sent."""


class PromptTooLong(JudgeInputError):
    """The trajectories do not fit ``max_prompt_tokens`` even with every text cut as far as it may be."""


class JudgeCallError(JudgeError, ConnectionError):
    """The judge could not be reached, kept failing, or refused the request.

    Attributes:
        status: The HTTP status, if any.
        is_hopeless: Whether every other call would fail as well: a wrong key, name or address, or no quota.
        may_be_of_form: Whether the judge may have refused the structured output alone.
    """

    may_be_of_form = False

    def __init__(self, message: str, status: int | None = None, *, is_hopeless: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.is_hopeless = is_hopeless


class ContextOverflow(JudgeCallError):
    """The prompt is longer than the judge's context: ``max_prompt_tokens`` is above it."""


class JudgeTimeoutError(JudgeCallError, TimeoutError):
    """The judge did not answer within the time allowed, at the last of all attempts."""


class SpendLimitReached(JudgeError, RuntimeError):
    """A session's ``max_cost_dollars`` is spent, or cannot be kept because a price is not known."""


class MalformedVerdict(JudgeError, ValueError):
    """An answer that is no verdict: unreadable, the wrong set of ids, or a score outside [0, 1]."""
