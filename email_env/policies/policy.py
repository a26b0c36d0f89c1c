"""What every scripted policy has: an environment to play in, and a next action."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase
from email_env.tools.toolbox import Toolbox
from judges.common.tool_calls import format_call

_HIT = re.compile(r"^(\S+) \| \d{4}-\d{2}-\d{2} \| ", re.MULTILINE)


class PlayedEnv(Protocol):
    """What a policy needs of `EmailSearchEnv`; `scenario` is None before the first `reset`."""

    scenario: Scenario | None
    max_turns: int
    database: MailDatabase
    toolbox: Toolbox


class ScriptedPolicy(ABC):
    """A policy that writes its actions down in order, reading each observation as it comes."""

    def __init__(self, env: PlayedEnv, *, seed: int = 0) -> None:
        self.env = env
        self.observation = ""
        self._actions: Iterator[str] = iter(())

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next action, in `<tool_call>` form."""
        self.observation = observation
        if "tools" in info:
            self._actions = self.actions()
        return next(self._actions)

    @abstractmethod
    def actions(self) -> Iterator[str]:
        """The actions of one episode."""

    @property
    def scenario(self) -> Scenario:
        """The scenario of the running episode."""
        assert self.env.scenario is not None, "the environment was reset"
        return self.env.scenario


def hit_ids(observation: str) -> list[str]:
    """Ids of the mails that search results list, in their order."""
    return _HIT.findall(observation)


def search(keywords: list[str], **filters: str) -> str:
    """A call of `search_inbox`."""
    return format_call("search_inbox", {"keywords": keywords, **filters})


def read(message_id: str) -> str:
    """A call of `read_email`."""
    return format_call("read_email", {"message_id": message_id})


def answer(text: str, sources: list[str]) -> Iterator[str]:
    """Calls of `return_final_answer`, as many as are asked for."""
    while True:
        yield format_call("return_final_answer", {"answer": text, "sources": sources})
