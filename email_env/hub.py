"""Data sets of a model hub, streamed by the package `datasets` (extra `hub`).

`HF_ENDPOINT` names another hub. A folder with the files of a data set serves as well as its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from email_env.errors import HubError

MAILS = "corbt/enron-emails"
"""The mail of the Enron corpus, about 500,000 rows, split `train`."""

QUESTIONS = "corbt/enron_emails_sample_questions"
"""Questions about that mail, splits `train` and `test`."""

_KNOCK_SECONDS = 10.0


def open_dataset(name: str, split: str) -> Any:
    """A data set as an iterable of rows.

    Raises:
        HubError: `datasets` is not installed, or there is no such data set in reach.
    """
    try:
        import datasets
    except ImportError as error:
        raise HubError(
            f"The data set {name!r} is read with the package datasets: pip install 'email-rl[hub]'"
        ) from error
    try:
        _knock(name)
        return datasets.load_dataset(name, split=split, streaming=True)
    except Exception as error:  # of many kinds, from several packages
        raise _unreachable(name, error) from error


def _knock(name: str) -> None:
    """Raises what a hub out of reach raises, at once: its client asks six times in 23 seconds before it does."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if not constants.HF_HUB_OFFLINE and not os.path.isdir(name):
        get_session().head(constants.ENDPOINT, timeout=_KNOCK_SECONDS)  # whatever it answers, it is there


def rows(dataset: Any, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a data set.

    Raises:
        HubError: the connection broke off.
    """
    try:
        yield from dataset
    except Exception as error:  # of many kinds, from several packages
        raise _unreachable(name, error) from error


def row_count(dataset: Any) -> int:
    """How many rows it has, as it says itself; 0 where it does not."""
    splits = dataset.info.splits or {}
    return getattr(splits.get(dataset.split), "num_examples", 0) or 0


def _unreachable(name: str, error: Exception) -> HubError:
    endpoint = os.environ.get("HF_ENDPOINT") or "the default hub"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return HubError(f"Cannot read the data set {name!r} from {endpoint} ({reason}). Check the network and HF_ENDPOINT.")
