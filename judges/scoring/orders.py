"""The orders in which a judge sees the trajectories of a group: rotations of a random order, not independent shuffles.

A judge may favour a place, the first one for instance. With as many orders as different trajectories, the rotations are
a Latin square: each trajectory stands at each place once, so a bonus that depends on the place alone cancels exactly.

With fewer orders a part remains. Let the bonus of a place be between 0 and ``B``, let a group have ``n`` different
trajectories and be judged in ``k`` orders, and let ``r = k mod n``. The difference between the mean scores of two
trajectories that is due to the order is at most ``B min(r, n - r) / k``, at most ``B / k`` if a single place has a
bonus, and 0 where ``k`` is a multiple of ``n``.
"""

from __future__ import annotations

import random
from collections.abc import Callable


def rotated_order(
    count: int, permutation: int, permutations: int, random_for: Callable[[str], random.Random]
) -> list[int]:
    """One of the orders in which the trajectories are shown.

    The orders come in rounds of ``count``. Each round has a random order of its own, and the orders of the round are
    rotations of it, as far apart as can be. So no trajectory stands at a place more than once more often than another.

    Args:
        count: How many different trajectories there are.
        permutation: Which order, from 0.
        permutations: How many orders there are.
        random_for: A generator for a purpose.

    Returns:
        The indices of the trajectories, 0 to ``count - 1``, in the order shown.
    """
    round_number, number_in_round = divmod(permutation, count)
    orders_in_round = min(count, permutations - round_number * count)
    order = random_for(f"order {round_number}").sample(range(count), count)
    offset = number_in_round * count // orders_in_round
    return order[offset:] + order[:offset]
