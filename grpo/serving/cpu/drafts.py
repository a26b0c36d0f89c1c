"""Speculative decoding for vLLM on the CPU: guesses from what was sampled before, without a second model.

The turns of an agent are much alike: the same calls in the same form, in every episode. So this part of the plugin
remembers which token followed the last few wherever it was sampled, and guesses on for as long as a guess is likely.
vLLM computes the guessed tokens together with the sampled one, in one step instead of one each, and
``cpu.verifier`` keeps those that are sampled anyway. ``ServerOptions.draft_tokens`` has vLLM load ``Proposer``.

Sources: speculative decoding, arXiv 2211.17192; guesses from earlier outputs, SuffixDecoding, arXiv 2411.04975.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from grpo.devices.memory import MOST_DRAFT_LOGITS

CONTEXT = 6
"""Tokens that a guess follows from. With fewer more is guessed, and more of it wrongly."""
LIKELY, ALL_LIKELY = 0.7, 0.5
"""How likely a guess must be, and all guesses of a step together: a wrong one costs about what it could have saved."""
_PATIENCE = 0.3  # by which a share moves with each token that is seen
_FIRST = 0.5  # the share of a token that was seen once
_MOST_CONTEXTS = 200_000  # 40 MB
_BYTES = 4


class Drafts:
    """Which token follows the last ``CONTEXT`` ones, and in what share of the cases, the latest weighing most."""

    def __init__(self) -> None:
        self._following: dict[bytes, tuple[int, float]] = {}

    def learn(self, ids: np.ndarray, start: int) -> None:
        """Remember the tokens from ``start`` on, and what each of them followed.

        Args:
            ids: Token ids, (T,), int32.
            start: The first that was sampled; those before ``CONTEXT`` ones are skipped.
        """
        text, tokens = ids.tobytes(), ids.tolist()
        following = self._following
        for at in range(max(start, CONTEXT), len(tokens)):
            context, token = text[(at - CONTEXT) * _BYTES : at * _BYTES], tokens[at]
            known, share = following.get(context, (token, 0.0))
            if known != token and share * (1 - _PATIENCE) >= _FIRST:
                following[context] = known, share * (1 - _PATIENCE)
            elif known == token and share:
                following[context] = token, share + (1 - share) * _PATIENCE
            else:
                following[context] = token, _FIRST
        if len(following) > _MOST_CONTEXTS:
            self._following = dict(islice(following.items(), _MOST_CONTEXTS // 2, None))

    def guess(self, ids: np.ndarray, most: int) -> list[int]:
        """At most ``most`` tokens that are likely to follow ``ids``, (T,), int32; often none."""
        context = ids[-CONTEXT:].tobytes()
        guessed: list[int] = []
        together = 1.0
        while len(guessed) < most:
            token, share = self._following.get(context, (0, 0.0))
            together *= share
            if share < LIKELY or together < ALL_LIKELY:
                break
            guessed.append(token)
            context = context[_BYTES:] + token.to_bytes(_BYTES, "little")
        return guessed


class Proposer:
    """What vLLM asks for guesses (its ``custom_class`` method of speculative decoding)."""

    def __init__(self, vllm_config: Any):
        self._most = vllm_config.speculative_config.num_speculative_tokens
        self._longest = vllm_config.model_config.max_model_len
        self._most_of_all = MOST_DRAFT_LOGITS // vllm_config.model_config.get_vocab_size()
        self._drafts = Drafts()

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is none."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: np.ndarray,
        token_ids_cpu: np.ndarray,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Guesses for each request of a batch.

        Args:
            sampled_token_ids: What each request sampled in this step; nothing while its prompt is read.
            num_tokens_no_spec: Tokens of each request, the sampled ones included, (B,).
            token_ids_cpu: These tokens, (B, longest), int32.
            slot_mappings: Unused; part of vLLM's interface.
        """
        ends = num_tokens_no_spec[: len(sampled_token_ids)].tolist()
        requests = [
            (token_ids_cpu[row, max(0, end - len(sampled) - CONTEXT) : end], len(sampled), end)
            for row, (sampled, end) in enumerate(zip(sampled_token_ids, ends, strict=True))
        ]
        for ids, count, _ in requests:
            self._drafts.learn(ids, len(ids) - count)
        most = min(self._most, self._most_of_all // max(1, len(requests)))
        return [
            self._drafts.guess(ids, min(most, self._longest - end - 1)) if count else [] for ids, count, end in requests
        ]
