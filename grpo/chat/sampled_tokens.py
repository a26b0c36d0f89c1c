"""The sampled tokens of an episode as text with their logprobs, turn by turn: what the page of a run colours.

Records keep them compactly, about 12 bytes a token: a call has ``[text, logprob, text, ...]``. With ids
alone a page would need the model's tokenizer. Tokens that are parts of one character are one entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from grpo.chat import Chat

Turn = list[str | float]

_BROKEN = "\ufffd"
_LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8, and so the most tokens it can be split into."""


class SampledTokens:
    """Decodes sampled ids one by one; each id once in the life of a process."""

    def __init__(self, chat: Chat):
        """Decode as ``chat`` does; a token that ends a turn is empty text."""
        self._chat = chat
        self._texts: dict[int, str] = {}

    def turn(self, tokens: Sequence[tuple[int, float]]) -> Turn:
        """One turn, from its ids with their logprobs."""
        turn: Turn = []
        waiting: list[int] = []
        logprob = 0.0
        for place, (token, value) in enumerate(tokens, start=1):
            waiting.append(token)
            logprob += value
            text = self._text(token) if len(waiting) == 1 else self._chat.decode(waiting)
            in_midst = text.endswith(_BROKEN) and len(waiting) < _LONGEST_CHARACTER and place < len(tokens)
            if not in_midst:  # else the token is the first part of a character: those are shown as one
                turn += [text, round(logprob, 3)]
                waiting, logprob = [], 0.0
        return turn

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._chat.decode([token])
        return self._texts[token]
