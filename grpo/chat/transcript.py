"""Episodes as text for people: what was said, turn by turn, and how it ended; the best and the worst of a step."""

import json
from collections.abc import Iterator, Sequence

from grpo.types import Episode, Message

MAX_MESSAGE_CHARS = 600
"""A longer message is cut in the middle of a display, with what is missing counted."""


def best_and_worst(episodes: Sequence[Episode]) -> list[tuple[str, Episode]]:
    """The episodes with the highest and the lowest reward, titled; those that failed or were cut are none of both."""
    whole = [episode for episode in episodes if episode.ending.compared]
    if not whole:
        return []
    ranked = sorted(whole, key=lambda episode: episode.reward)
    ends = [("best", ranked[-1]), ("worst", ranked[0])]
    return ends if ranked[-1] is not ranked[0] else ends[:1]


def transcript(episode: Episode) -> Iterator[str]:
    """One line on how the episode went, then each message with its role, long ones cut."""
    yield (
        f"reward {episode.reward:.3f}, {episode.task.key}, {episode.num_turns} turns, "
        f"{episode.num_sampled_tokens} sampled tokens, ended: {episode.ending}"
    )
    for message in episode.messages:
        yield f"[{message['role']}] {shortened(text_of(message))}"
    if episode.explanation:
        yield f"[judge] {shortened(episode.explanation)}"


def opening_of(messages: Sequence[Message]) -> tuple[str, str]:
    """The system message and the question: what the policy was given before its first turn."""
    system, question = [], []
    for message in messages:
        if message["role"] == "assistant":
            break
        (system if message["role"] == "system" else question).append(text_of(message))
    return "\n\n".join(system), "\n\n".join(question)


def text_of(message: Message) -> str:
    """A message's text, and its tool calls as JSON, one a line."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [json.dumps(call.get("function", call), ensure_ascii=False) for call in message.get("tool_calls") or ()]
    return "\n".join([text, *calls] if text else calls)


def shortened(text: str, most: int = MAX_MESSAGE_CHARS) -> str:
    """The text, cut in the middle where it has more characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
