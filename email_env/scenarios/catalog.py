"""The scenarios that an environment plays: those of the database or given ones, by split and difficulty.

Nothing is guessed: an unknown id, index or split is an error that names the nearest right one.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from email_env.errors import ConfigurationError, UnknownScenarioError, check_choice
from email_env.scenarios.misfits import sort_out
from email_env.scenarios.scenario import DIFFICULTIES, SPLITS, Scenario
from email_env.scenarios.sets import load_scenarios, stored_scenarios
from email_env.search.database import MailDatabase

_log = logging.getLogger(__name__)
_OPTIONS = ("scenario_id", "index", "split")


class Catalog:
    """Scenarios by split.

    Args:
        database: holds the scenarios where none are given.
        scenarios: scenarios, a JSONL file or a hub data set; None for those of the database.
        difficulties: only scenarios of these grades; none for all.

    Raises:
        ConfigurationError: `scenarios` holds something that is no scenario, or there is no such grade.
        ScenarioError: the file cannot be read.
        HubError: the data set is out of reach.

    Attributes:
        misfits: scenario id -> why the database cannot serve this given scenario.
    """

    def __init__(
        self,
        database: MailDatabase,
        scenarios: str | Path | Sequence[Scenario] | None,
        difficulties: Sequence[str] | str | None,
    ) -> None:
        self._database = database
        self.misfits: dict[str, str] = {}
        self._given = _given_scenarios(scenarios)
        if self._given is not None:
            status = database.path.stat()
            fitting, misfits = _sorted_out(database.path, (status.st_ino, status.st_mtime_ns), tuple(self._given))
            self._given, self.misfits = list(fitting), dict(misfits)
        self._difficulties = _items("difficulties", () if difficulties is None else difficulties)
        for difficulty in self._difficulties:
            check_choice("difficulties", difficulty, DIFFICULTIES)
        self._by_split: dict[str | None, dict[str, Scenario]] = {}

    def of(self, split: str | None) -> dict[str, Scenario]:
        """The scenarios of a split by id, in their order; all where it is None.

        Raises:
            ConfigurationError: there is no such split.
            UnknownScenarioError: it has no scenarios.
        """
        check_choice("split", split, (*SPLITS, None))
        if split not in self._by_split:
            graded = self._difficulties or DIFFICULTIES
            chosen = {s.scenario_id: s for s in self._all(split) if s.difficulty in graded}
            if not chosen:
                grades = f" of difficulty {', '.join(map(repr, self._difficulties))}" if self._difficulties else ""
                source = str(self._database.path) if self._given is None else "the given scenarios"
                count = len(self.misfits)
                misfits = f" {count} do not fit the mail: {_examples(self.misfits)}." if count else ""
                raise UnknownScenarioError(
                    f"No scenarios in split {split!r}{grades} of {source}.{misfits} Choose another split (None is all),"
                    " pass scenarios=, or set EMAIL_ENV_SCENARIOS to a JSONL file."
                )
            self._by_split[split] = chosen
        return self._by_split[split]

    def choose(self, options: Mapping[str, Any], split: str | None, rng: np.random.Generator) -> Scenario:
        """The scenario that the options of `reset` name, or a random one where they name none.

        Raises:
            ConfigurationError: an option is unknown or contradicts another.
            UnknownScenarioError: there is no such scenario.
        """
        for name in options:
            check_choice("an option of reset", name, _OPTIONS)
        split = options.get("split", split)
        scenarios = self.of(split)
        scenario_id, index = options.get("scenario_id"), options.get("index")
        if scenario_id is not None and index is not None:
            raise ConfigurationError(f"Give scenario_id or index, not both; got {scenario_id!r} and {index!r}.")
        if scenario_id is not None:
            if not isinstance(scenario_id, str) or scenario_id not in scenarios:
                raise UnknownScenarioError(self._why_missing(scenario_id, split))
            return scenarios[scenario_id]
        if index is None:
            index = int(rng.integers(len(scenarios)))
        elif isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < len(scenarios):
            most = len(scenarios) - 1
            raise UnknownScenarioError(f"index must be a whole number from 0 to {most}, got {index!r}.")
        return list(scenarios.values())[index]

    def _why_missing(self, scenario_id: object, split: str | None) -> str:
        if isinstance(scenario_id, str) and scenario_id in self.misfits:
            return f"Scenario {scenario_id!r} does not fit {str(self._database.path)!r}: {self.misfits[scenario_id]}."
        elsewhere = next((s for s in self._all(None) if s.scenario_id == scenario_id), None)
        if elsewhere is not None:
            return (
                f"Scenario {scenario_id!r} ({elsewhere.split!r}, {elsewhere.difficulty!r}) is not among"
                f" those of split {split!r} and the chosen difficulties. Choose its split to play it."
            )
        near = get_close_matches(str(scenario_id), self.of(split), n=3, cutoff=0.3)
        hint = f"The nearest are {', '.join(map(repr, near))}" if near else "scenario_ids() lists them"
        return f"No scenario {scenario_id!r} in split {split!r}. {hint}."

    def _all(self, split: str | None) -> list[Scenario]:
        if self._given is None:
            return stored_scenarios(self._database, split)
        return [scenario for scenario in self._given if split in (None, scenario.split)]


@lru_cache(maxsize=4)
def _sorted_out(
    path: Path, _version: tuple[int, int], given: tuple[Scenario, ...]
) -> tuple[tuple[Scenario, ...], dict[str, str]]:
    """The given scenarios that the mail can serve, and why not the others. Each process looks and warns only once."""
    with closing(MailDatabase(path)) as database:
        fitting, misfits = sort_out(database.connection(), given)
    if misfits:
        _log.warning("%d given scenarios do not fit %s: %s", len(misfits), path, _examples(misfits))
    return tuple(fitting), misfits


def _examples(misfits: Mapping[str, str]) -> str:
    return "; ".join(f"{key}: {why}" for key, why in islice(misfits.items(), 3))


def _given_scenarios(scenarios: str | Path | Sequence[Scenario] | None) -> list[Scenario] | None:
    if scenarios is None:
        return None
    if isinstance(scenarios, str | Path):
        return load_scenarios(scenarios)
    given = _items("scenarios", scenarios)
    for item in given:
        if not isinstance(item, Scenario):
            raise ConfigurationError(f"scenarios must be a path or a list of Scenario, got an item {item!r}.")
    return [Scenario.from_dict(item.to_dict()) for item in given]  # tuples where a caller gave lists


def _items(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise ConfigurationError(f"{name} must be a list, got {value!r}.")
    return tuple(value)  # type: ignore[reportUnknownVariableType]
