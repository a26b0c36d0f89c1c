"""Data sets of a model hub, streamed by the package `datasets` (extra `hub`).

The variable `HF_ENDPOINT` names another hub. A folder with the Parquet files of a data set works like its name.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from email_env.errors import HubError

MAILS = "corbt/enron-emails"
"""The mail of the Enron corpus, about 500,000 rows, split `train`."""

QUESTIONS = "corbt/enron_emails_sample_questions"
"""Questions about that mail, splits `train` and `test`."""

_KNOCK_SECONDS = 10.0


def is_dataset(folder: str | Path) -> bool:
    """Whether a folder holds what a data set's folder holds on the hub: Parquet files, at its top or in `data`."""
    return any(any(Path(folder).glob(pattern)) for pattern in ("*.parquet", "data/*.parquet"))


def open_dataset(name: str, split: str) -> Any:
    """A data set as an iterable of rows.

    Raises:
        HubError: `datasets` is not installed, or the data set does not exist or cannot be reached.
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
    """Asks the hub for anything and raises at once if it is out of reach; its own client retries for 23 seconds."""
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
    """How many rows the data set says it has; 0 where it does not say."""
    splits = dataset.info.splits or {}
    return getattr(splits.get(dataset.split), "num_examples", 0) or 0


def _unreachable(name: str, error: Exception) -> HubError:
    endpoint = os.environ.get("HF_ENDPOINT") or "the default hub"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return HubError(f"Cannot read the data set {name!r} from {endpoint} ({reason}). Check the network and HF_ENDPOINT.")
