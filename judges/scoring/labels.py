"""Random labels: the names under which a judge sees trajectories, and the word that marks a cut.

A label depends on the seed and on the whole content of the group, so no text of a trajectory can know it.
"""

from __future__ import annotations

import random

LABEL_LETTERS = "bcdfghjkmnpqrtvwxz"
"""No vowels, so no words; no digits, so no label can be taken for a number or for a position."""


def random_labels(count: int, rng: random.Random) -> list[str]:
    """Different labels of three letters (18^3 = 5,832 of them), longer ones for a group that would crowd them."""
    size = 3
    while len(LABEL_LETTERS) ** size < 4 * count:
        size += 1
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        chosen["".join(rng.choices(LABEL_LETTERS, k=size))] = None
    return list(chosen)
