"""The prompts of one episode, token for token: what a policy sees next, and what it said, kept as model calls.

Nothing is rendered or tokenised again. What the policy sampled stays as it was, what the env adds is appended; where a
chat template rewrites what was said, the next call begins a new row with a whole prompt.
"""

from grpo.chat.template import Chat
from grpo.types import Episode, Message, ModelCall


class Prompts:
    """Goes along with an episode whose messages and turns somebody else appends.

    Args:
        chat: The chat format.
        episode: Gets a `ModelCall` for each turn.
    """

    def __init__(self, chat: Chat, episode: Episode):
        self.chat = chat
        self.episode = episode
        self._seen: list[int] = []  # the last prompt, and what was said to it
        self._kept = 0  # how many of these ids stand in the episode's calls
        self._last: int | None = None

    def following(self, new: list[Message]) -> list[int]:
        """The whole prompt of the next turn; ``new`` is what the env has added, at first its opening messages."""
        messages, tools = self.episode.messages, self.episode.tools
        if not self._seen:
            return self.chat.prompt_ids(new, tools)
        history = messages[: len(messages) - len(new)]
        prompt, rewritten = self.chat.next_prompt(self._seen, history, new, tools)
        if rewritten:
            self._kept, self._last = 0, None
        return prompt

    def said(self, prompt: list[int], ids: list[int], logprobs: list[float], version: int | None = None) -> ModelCall:
        """Keep a turn that was sampled after ``prompt`` as a call; it is the episode's next turn."""
        call = ModelCall(
            version=version,
            turn=self.episode.num_turns,
            follows=self._last,
            prompt_ids=prompt[self._kept :],
            sampled_ids=ids,
            logprobs=logprobs,
            prompt_tokens=len(prompt),
            completion_tokens=len(ids),
            status=200,
        )
        self._last = len(self.episode.calls)
        self.episode.calls.append(call)
        self._seen = prompt + ids
        self._kept = len(self._seen)
        return call

    def shown(self, prompt: list[int], ids: list[int]) -> None:
        """Go on behind a turn that is context: it is not to be learned."""
        self._seen = prompt + ids
