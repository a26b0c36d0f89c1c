"""Several servers of one model as one: which of them are in, which is least loaded, how one that ended comes back.

    in  -- a request fails, and so does the health check -->  out  -- well again, with every adapter -->  in

A server of our own is restarted (once), one that a user gave is asked again every few seconds, both beside the run.
Who asks meanwhile asks another server. Where one server is all there is, its return is waited for: that of a user's own
for a while, since users restart servers.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from grpo.errors import ServerDiedError, ServerStartError, describe
from grpo.serving.server import PolicyServer, Say, Servers

CHECK_SECONDS = 5.0
_LOGGER = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Member:
    """A server of a fleet.

    Attributes:
        server: The server.
        out: Why it is out; "" while it is in.
        given_up: Whether it is out, could not be brought back and was waited for long enough.
        returns: How often it came back.
        episodes: How many are played on it now.
    """

    server: PolicyServer
    out: str = ""
    given_up: bool = False
    returns: int = 0
    episodes: int = 0


@dataclass(eq=False, slots=True)
class GroupServer:
    """The server that the episodes of a group are played on: one for all, which has their prompt in its cache."""

    member: Member | None = None
    episodes: int = 0

    def move(self, member: Member) -> None:
        """Play on there, all of them."""
        if self.member is not None:
            self.member.episodes -= self.episodes
        self.member = member
        member.episodes += self.episodes

    def count(self, change: int) -> None:
        """Note that episodes began (1) or ended (-1)."""
        self.episodes += change
        if self.member is not None:
            self.member.episodes += change


@dataclass(slots=True)
class Fleet(Servers):
    """The servers of a run.

    Attributes:
        name: What they are, for people.
        servers: At least one.
        check_seconds: Between two tries to bring a server back.
        on_return: Called with a server that is well again, before it is let in; one that raises a `ServerError` keeps
            it out until the next try.
        on_change: Called with a line for people when a server goes out or comes back.
        on_stop: Called once, before the servers are stopped.
    """

    name: ClassVar[str] = "vLLM"
    servers: Sequence[PolicyServer]
    check_seconds: float = CHECK_SECONDS
    on_return: list[Callable[[PolicyServer], None]] = field(default_factory=list)
    on_change: list[Say] = field(default_factory=lambda: [_LOGGER.warning])
    on_stop: list[Callable[[], None]] = field(default_factory=list)
    members: list[Member] = field(init=False)
    lock: threading.RLock = field(init=False, default_factory=threading.RLock)
    """Held while a server is given its adapters and let in: no version is published in between."""
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _state: threading.Lock = field(init=False, default_factory=threading.Lock)
    _returning: list[threading.Thread] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.members = [Member(server) for server in self.servers]

    @property
    def url(self) -> str:
        """The URLs of all, for people."""
        return ", ".join(server.url for server in self.servers)

    @property
    def model(self) -> str:
        """Name of the model without an adapter."""
        return self.servers[0].model

    def start(self) -> None:
        """Begin to start all; returns at once. One that cannot stops the others."""
        try:
            for server in self.servers:
                server.start()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, say: Say | None = None) -> float:
        """Wait until all answer; returns the seconds that the last one took.

        Raises:
            ServerStartError: One does not answer, or they serve models of different names.
        """
        seconds = max(server.wait_ready(say) for server in self.servers)
        names = {server.url: server.model for server in self.servers}
        if len(set(names.values())) > 1:
            served = ", ".join(f"{name!r} at {url}" for url, name in names.items())
            raise ServerStartError(
                f"the servers serve different models: {served}. All must serve the model that is trained, under one "
                "name (vLLM's --served-model-name)"
            )
        return seconds

    def stop(self) -> None:
        """Stop those that are ours, those that are being brought back too. Twice does no harm."""
        self._stopped.set()
        while self.on_stop:
            self.on_stop.pop()()
        for server in self.servers:
            server.stop()
        for thread in self._returning:
            thread.join()
        if self._returning:
            for server in self.servers:  # one may have been about to start
                server.stop()

    def present(self) -> list[Member]:
        """Those that are in."""
        return [member for member in self.members if not member.out]

    def least_loaded(self) -> Member | None:
        """The one with the fewest episodes; None while all are out and one may come back soon.

        Raises:
            ServerDiedError: None is left; why, server by server.
        """
        present = self.present()
        if present:
            return min(present, key=lambda member: member.episodes)
        if all(member.given_up for member in self.members) or self._stopped.is_set():
            if len(self.members) == 1:
                raise ServerDiedError(self.members[0].out)
            reasons = "\n".join(f"  {member.server.url}: {member.out}" for member in self.members)
            raise ServerDiedError(f"none of {len(self.members)} servers is left:\n{reasons}")
        return None

    def take_out(self, member: Member, returns: int, why: str) -> None:
        """Ask a server no more, and begin to bring it back.

        Args:
            member: Which.
            returns: How often it had come back when it failed; if it came back since, it stays in.
            why: What happened.
        """
        with self._state:
            if member.out or member.returns != returns or self._stopped.is_set():
                return
            member.out, member.given_up = why, False
            thread = threading.Thread(target=self._bring_back, args=(member,), daemon=True)
            self._returning = [other for other in self._returning if other.is_alive()] + [thread]
            thread.start()
        left = len(self.present())
        rest = f"its episodes go on at the other {left}" if left else "its episodes wait until it is back"
        if not left and (patience := member.server.patience_seconds):
            rest += f", up to {patience:g} s"
        self._tell(f"the server at {member.server.url} is out ({why.splitlines()[0]}); {rest}")

    def _bring_back(self, member: Member) -> None:
        began, patience = time.monotonic(), member.server.patience_seconds
        while not self._stopped.is_set():
            try:
                restarted = member.server.recover()
                with self.lock:
                    for action in self.on_return:
                        action(member.server)
                    with self._state:
                        member.out, member.given_up = "", False
                        member.returns += 1
                how = "was restarted" if restarted else "answers again"
                self._tell(f"the server at {member.server.url} {how} and is in")
                return
            except (
                Exception
            ) as error:  # a model's folder or a log that is gone ends no thread: who waits would never know
                waited = f" (it was waited for {patience:g} s)" if patience else ""
                is_late = time.monotonic() - began >= patience
                member.out, member.given_up = describe(error) + (waited if is_late else ""), is_late
            self._stopped.wait(self.check_seconds)

    def _tell(self, line: str) -> None:
        for tell in self.on_change:
            tell(line)
