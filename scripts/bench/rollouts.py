"""Made-up rollouts as the learner's rows: groups in the shape that EmailSearch-v0 has after the warm start."""

import random
from dataclasses import dataclass

from grpo.learner.segments import Segment

ACTION_EVERY = 4  # tokens


@dataclass(frozen=True)
class Shape:
    """A group: how many rollouts, tokens in common, least and most tokens of a rollout's own, tokens of the prompt."""

    size: int
    shared: int
    own: tuple[int, int]
    prompt: int = 170

    def rows(
        self, draw: random.Random, vocabulary: int, *, task: str = "", scale: float = 1.0, logprob: float = 0.0
    ) -> list[Segment]:
        """Random ids; about a quarter of those behind the prompt are actions. Advantages sum up to zero."""

        def ids(length: float) -> list[int]:
            return [draw.randrange(vocabulary) for _ in range(max(2, round(length * scale)))]

        rows: list[Segment] = []
        prompt, shared = round(self.prompt * scale), ids(self.shared)
        for number in range(self.size):
            row = shared + ids(draw.randint(*self.own))
            mask = [at >= prompt and at % ACTION_EVERY == 0 for at in range(len(row))]
            mask[prompt] = mask[-1] = True
            rows.append(Segment(row, mask, [logprob] * len(row), number - (self.size - 1) / 2, task=task))
        return rows


RECIPE = Shape(4, 230, (220, 420))
"""The CPU recipe's: rollouts of about 550 tokens, of which they share two fifths."""
