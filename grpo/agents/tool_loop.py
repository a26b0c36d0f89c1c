"""A model by name in a plain tool loop: the prompt as the env gives it, its tools, one request a turn, nothing else."""

import asyncio
from typing import Any

from grpo.agents.recorder import CallRecorder
from grpo.agents.upstream import Upstream, UpstreamFailed
from grpo.agents.wire import CHAT, Asked
from grpo.chat.turns import ANSWER_TOOL
from grpo.envs.message_env import Observation
from grpo.episodes.play import Play, Turn
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError, ServerError
from grpo.types import Answer, Message
from judges.common.tool_calls import answer_every_call, message_action, parse_turn, without_thought

PAUSES_SECONDS = (0.5, 2.0, 8.0)
"""Waits before the second, third and fourth try of a request that the server could not take."""

_PASSING = (0, 408, 429)
"""Statuses below 500 after which another try may help; 0: no answer came."""


class ToolLoopAgent(Agent):
    """Asks the upstream, hands its turn to the env, and so on until the env ends the episode.

    Args:
        upstream: The model.
        temperature: Of sampling; None leaves it to the server.
    """

    def __init__(self, upstream: Upstream, temperature: float | None):
        self.upstream = upstream
        self._options = {} if temperature is None else {"temperature": temperature}

    async def __aexit__(self, *_: object) -> None:
        await self.upstream.close()

    async def run(self, play: Play) -> None:
        """Play to the end.

        Raises:
            EvaluationError: What counted as the answer is a tool call that the server left in the text.
        """
        episode = play.episode
        body: dict[str, Any] = {"model": self.upstream.model, **self._options}
        if episode.tools:
            body["tools"] = episode.tools
        called: list[dict[str, Any]] = []
        text = ""

        async def speak(observation: Observation) -> Turn | Answer:
            nonlocal called, text
            if called:
                answer_every_call(called, episode.messages, len(episode.messages) - len(observation.messages))
            message = await self._ask(play, body | {"messages": list(episode.messages)})
            turn: Message = {"role": "assistant", "content": message.get("content")}
            called = _calls(message, len(episode.messages))
            text = "" if called else _text(message.get("content")) or _text(message.get("refusal"))
            if called:
                turn["tool_calls"] = called
                return Turn(message_action(turn), turn)
            return Answer(text) if text else Turn("", turn | {"content": ""})

        await play.converse(speak)
        if text and reads_like_a_call(text, [tool["function"]["name"] for tool in episode.tools]):
            raise EvaluationError(
                "a tool call came as text and counted as the answer: the server does not read the calls of "
                "this model (vLLM does with --enable-auto-tool-choice and --tool-call-parser)"
            )

    async def _ask(self, play: Play, body: dict[str, Any]) -> Message:
        pauses = iter(PAUSES_SECONDS)
        while True:
            recorder = CallRecorder(play, Asked(body["messages"], body.get("tools", [])), self.upstream)
            try:
                reply = await self.upstream.ask(CHAT, body)
            except UpstreamFailed as error:
                recorder.refused(error)
                pause = next(pauses, None)
                if pause is None or not (error.status >= 500 or error.status in _PASSING):
                    raise ServerError(str(error)) from error  # the player tells a full context from other refusals
                await asyncio.sleep(pause)
            else:
                recorder.whole(reply.body, reply.cost)
                return reply.body["choices"][0]["message"]


def reads_like_a_call(text: str, tool_names: list[str]) -> bool:
    """Whether a model that was to answer by ``ANSWER_TOOL`` wrote a call of one of its tools, in whatever form."""
    if ANSWER_TOOL not in tool_names:  # the text is no answer, but a turn, and the env reads calls in it
        return False
    turn = parse_turn(text)
    begins_so = bool(turn.fault) or text.startswith(("<", "[", "{", "`"))
    return any(call.name in tool_names for call in turn.calls) or (begins_so and any(n in text for n in tool_names))


def _calls(message: Message, place: int) -> list[dict[str, Any]]:
    """Of a reply; servers of the time before ``tool_calls`` give one, in ``function_call``, without an id."""
    if (old := message.get("function_call")) and not message.get("tool_calls"):
        return [{"id": f"call_{place}", "type": "function", "function": old}]
    return message.get("tool_calls") or []


def _text(content: Any) -> str:
    """What was said, or refused, less a thought before it; some servers send it in parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return without_thought(str(content or ""))
