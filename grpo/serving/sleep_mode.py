"""Learner and server in turns on one GPU that has no room for both: one computes, the model of the other waits.

It waits in the host's memory: the learner's frozen weights in this process, vLLM's model in vLLM (its sleep mode). What
is small stays on the GPU. ``grpo.devices.plan`` says whether they take turns.
"""

import time
from collections.abc import Callable
from typing import Any, cast

from grpo.errors import ServerError
from grpo.serving.fleet import Fleet, Member
from grpo.serving.vllm import VllmServer


class Turns:
    """Only one of them computes at a time; the server has the first turn. No turns are taken where it cannot sleep."""

    def __init__(self, learner: Any, servers: object):
        """Take turns between a run's engine and its servers where the plan of a server of ours said so.

        The engine's ``sleep`` gives the GPU's memory back, until its ``wake_up``.
        """
        self._learner = learner
        self._fleet: Fleet | None = None
        if isinstance(servers, Fleet):
            ours = [server for server in servers.servers if isinstance(server, VllmServer)]
            self._fleet = servers if any(server.options.sleep_mode for server in ours) else None
        self._training = False
        self._awake: dict[Member, str] = {}
        """Servers that did not fall asleep, and are gone, with what happened."""

    def train(self) -> None:
        """The learner computes next; a server that is just being started again gets ready first.

        Raises:
            ServerDiedError: No server is left.
        """
        if self._fleet is not None and not self._training:
            while self._fleet.least_loaded() is None:  # one that starts measures the GPU's memory, and takes its part
                time.sleep(0.2)
            asleep = {member: _failure(_ours(member).sleep) for member in self._fleet.present()}
            self._awake = {member: why for member, why in asleep.items() if why}
            self._learner.wake_up()
            self._training = True

    def sample(self) -> None:
        """The server computes next. One that did not fall asleep or wake up is started again, as after any failure."""
        if self._fleet is not None and self._training:
            self._learner.sleep()
            for member in self._fleet.present():
                if why := self._awake.get(member) or _failure(_ours(member).wake_up):
                    self._fleet.take_out(member, member.returns, why)
            self._training = False


def _ours(member: Member) -> VllmServer:
    return cast("VllmServer", member.server)


def _failure(move: Callable[[], None]) -> str:
    """Why a server did not fall asleep or wake up; "" where it did."""
    try:
        move()
    except ServerError as error:
        return str(error)
    return ""
