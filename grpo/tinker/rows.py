"""What is sent to a server that speaks the Tinker API, so that its gradient is the one of our loss.

At the weights that log-probabilities were computed at, a loss has the gradient ``sum_t c_t grad logp_t`` with
``c_t = d loss / d logp_t``. The coefficients come from our own ``token_losses``, so the server needs none of our
losses, and its clipping is never used. The server's ``importance_sampling`` takes ``-exp(logp_t - given_t) A_t`` for a
token; with those log-probabilities given, and ``A_t = -c_t``, its gradient is the sum above.

The server takes the mean over a row's tokens, and of that the mean over the rows of a step, so the coefficients are
multiplied by both numbers before (`data_of`). One that adds up otherwise is refused (`probe`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grpo.learner.engine import LossSpec, RowStatistics
from grpo.learner.loss import ActionTokens, token_losses
from grpo.learner.segments import Segment
from grpo.tinker.connection import package

LOSS = "importance_sampling"


@dataclass(frozen=True, slots=True)
class WeighedRow:
    """A row whose gradient is known up to the server's part.

    Attributes:
        row: The row.
        logprobs: Of its action tokens, at the server's weights.
        coefficients: ``c_t`` of each.
    """

    row: Segment
    logprobs: list[float]
    coefficients: list[float]


def weigh(
    rows: Sequence[Segment], logprobs: Sequence[list[float]], loss: LossSpec
) -> tuple[list[RowStatistics], list[WeighedRow]]:
    """The statistics of rows, without entropies, and the coefficients of their tokens.

    Args:
        rows: Rows.
        logprobs: Of the action tokens of each.
        loss: Without a KL term, at temperature 1.
    """
    logprobs_T = torch.tensor([value for row in logprobs for value in row], requires_grad=True)
    sampler_T = torch.tensor([value for row in rows for value in row.sampled_logprobs])
    advantages_T = torch.tensor([row.advantage for row in rows for _ in range(row.num_actions)])
    tokens = ActionTokens(logprobs_T, sampler_T, advantages_T, [row.num_actions for row in rows])
    tokens.row_bounds = [loss.row_bound(row) for row in rows]
    loss_T = token_losses(tokens, loss)
    (coefficients_T,) = torch.autograd.grad(loss_T.sum(), logprobs_T)
    parts = zip(rows, logprobs, tokens.by_row(loss_T), tokens.by_row(coefficients_T), strict=True)
    weighed: list[WeighedRow] = []
    statistics: list[RowStatistics] = []
    for row, found, losses, coefficients in parts:
        weighed.append(WeighedRow(row, found, coefficients))
        statistics.append(RowStatistics(sum(losses), found, []))
    return statistics, weighed


def data_of(rows: Sequence[WeighedRow]) -> list[Any]:
    """One ``tinker.Datum`` for each row of a whole update."""
    data: list[Any] = []
    for weighed in rows:
        divisor = weighed.row.num_actions * len(rows)
        data.append(datum(weighed.row, weighed.logprobs, [-value * divisor for value in weighed.coefficients]))
    return data


def datum(row: Segment, logprobs: Sequence[float] | None = None, advantages: Sequence[float] | None = None) -> Any:
    """A row as the server takes it: its ids, what comes after each, and which of that are actions.

    Args:
        row: A row; its first token is no action.
        logprobs: Of its action tokens; None for a forward pass.
        advantages: Of its action tokens; None for a forward pass.
    """
    types = package("types")

    def floats(values: list[float]) -> Any:
        return types.TensorData(data=values[1:], dtype="float32", shape=[len(values) - 1])

    inputs = {
        "target_tokens": types.TensorData(data=row.ids[1:], dtype="int64", shape=[len(row.ids) - 1]),
        "weights": floats([float(acts) for acts in row.action_mask]),
    }
    if logprobs is not None and advantages is not None:
        inputs |= {"logprobs": floats(_placed(row, logprobs)), "advantages": floats(_placed(row, advantages))}
    return types.Datum(model_input=types.ModelInput.from_ints(row.ids[:-1]), loss_fn_inputs=inputs)


def action_logprobs(rows: Sequence[Segment], output: Any) -> list[list[float]]:
    """Of each row's action tokens, from what the server answers about the data of those rows."""
    found: list[list[float]] = []
    for row, answer in zip(rows, output.loss_fn_outputs, strict=True):
        values = answer["logprobs"].data
        found.append([value for value, acts in zip(values, row.action_mask[1:], strict=True) if acts])
    return found


def _placed(row: Segment, values: Sequence[float]) -> list[float]:
    """Values of the action tokens at their places, and 0 elsewhere."""
    remaining = iter(values)
    return [next(remaining) if acts else 0.0 for acts in row.action_mask]
