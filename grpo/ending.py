"""Why an episode ended, and what follows from it: one enum and one table, for training and evaluation alike.

`docs/how-it-works.md` shows the table; a test holds the two against each other.
"""

from enum import StrEnum
from typing import NamedTuple


class Ending(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"
    """The agent gave a final answer, or the env ended the episode itself."""
    MAX_TURNS = "max_turns"
    """The env's own limit of turns, or ``--max-turns``."""
    NO_ANSWER = "no_answer"
    """The agent stopped without an answer."""
    CONTEXT_FULL = "context_full"
    """The conversation outgrew what the model can see: what it would have come to is not known."""
    TIMEOUT = "timeout"
    """The time limit, before the agent had answered."""
    AGENT_CRASH = "agent_crash"
    """The agent raised an exception, or its program failed, before it had answered."""
    INFRASTRUCTURE = "infrastructure"
    """The env, the model's server or an answer's judge failed, not the agent."""

    @property
    def compared(self) -> bool:
        """See `Consequences`."""
        return CONSEQUENCES[self].compared

    @property
    def counted(self) -> bool:
        """See `Consequences`."""
        return CONSEQUENCES[self].counted

    @property
    def played_again(self) -> bool:
        """See `Consequences`."""
        return CONSEQUENCES[self].played_again


class Consequences(NamedTuple):
    """What becomes of an episode that ended so."""

    compared: bool
    """Its reward is that of a whole episode: it is rewarded within its group, and learned from."""
    counted: bool
    """It is in every mean, with the reward that it had, and is right only where it was answered."""
    played_again: bool
    """``--resume`` plays it again; a group that has one is not kept for a continued step."""


CONSEQUENCES: dict[Ending, Consequences] = {
    Ending.ANSWERED: Consequences(compared=True, counted=True, played_again=False),
    Ending.MAX_TURNS: Consequences(compared=True, counted=True, played_again=False),
    Ending.NO_ANSWER: Consequences(compared=True, counted=True, played_again=False),
    Ending.CONTEXT_FULL: Consequences(compared=False, counted=True, played_again=False),
    Ending.TIMEOUT: Consequences(compared=False, counted=True, played_again=False),
    Ending.AGENT_CRASH: Consequences(compared=False, counted=True, played_again=False),
    Ending.INFRASTRUCTURE: Consequences(compared=False, counted=False, played_again=True),
}
