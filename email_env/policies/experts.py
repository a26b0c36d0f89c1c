"""Experts, who know the scenario's answer and evidence: one that is always right, and one to imitate."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from email_env.policies.policy import PlannedPolicy, PlayedEnv, answer, hit_ids, read, search
from email_env.policies.words import content_words, is_name, telling_words
from email_env.scenarios.scenario import DONT_KNOW, Scenario


class OraclePolicy(PlannedPolicy):
    """The expert: follows the scenario's plan, or finds the evidence by its subject, and gives the reference answer.

    It always answers on the last turn at the latest. `seed` changes nothing.
    """

    def actions(self) -> Iterator[str]:
        """Searches and reads as planned, then answers."""
        scenario = self.scenario
        steps = [_step(tool, arguments) for tool, arguments in scenario.plan] or list(self._steps(scenario))
        yield from steps[: self.env.max_turns - 1]
        yield from self.answers(scenario)

    def answers(self, scenario: Scenario) -> Iterator[str]:
        """The reference answer, as often as it is asked for."""
        return answer(scenario.answer if scenario.answerable else DONT_KNOW, list(scenario.message_ids))

    def _steps(self, scenario: Scenario) -> Iterator[str]:
        """A search and a read for each piece of evidence; for none, a search with the question's words."""
        for message_id in scenario.message_ids:
            yield search(**self._finding(message_id, scenario))
            yield read(message_id)
        if not scenario.message_ids:
            yield search(_question_words(scenario))

    def _finding(self, message_id: str, scenario: Scenario) -> dict[str, Any]:
        """Arguments of a search that shows the mail: words of its subject, as few as do, else with sender and day."""
        email = self.env.database.read(message_id, inbox=scenario.inbox, until=scenario.query_date)
        if email is None:
            return {"keywords": _question_words(scenario)}
        words = content_words(email.subject) or content_words(email.body)
        choices: list[dict[str, Any]] = [{"keywords": words[:count]} for count in range(1, min(len(words), 6) + 1)]
        choices += [choice | {"sent_after": email.sent_at[:10]} for choice in choices]
        choices += [choice | {"from_addr": email.from_addr} for choice in choices if email.from_addr]
        for choice in choices:
            if any(hit.message_id == email.message_id for hit in self.env.toolbox.search(scenario, **choice).hits):
                return choice
        return choices[-1] if choices else {"keywords": [message_id]}


class TutorPolicy(OraclePolicy):
    """The expert for warm starts: shows what a small model can copy, and how to recover.

    Its searches use words that the reader has seen, in the question or in mail, where these find the next mail of the
    expert's plan. An expert's synonyms would teach a small model to invent words. In two episodes of three (by `seed`)
    the tutor stumbles if there are turns enough: it begins with a search that finds nothing, or it reads another mail
    of the list before the right one. `imitate` is False during such a step: only the recovery is to be imitated. A
    policy that never saw a search without hits has no answer to one, and invents a message id.

    On 64 validation questions (all difficulties, seed 0, temperature 1) a model that imitated the oracle's keywords had
    14 % success and found 38 % of the mails. With an earlier choice among seen words it had 25 % and 48 %.
    """

    STUMBLES: ClassVar[tuple[str, ...]] = ("", "search", "read")
    _MAX_WORDS: ClassVar[int] = 5

    def __init__(self, env: PlayedEnv, *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self.imitate = True
        self._random = random.Random(seed)

    def actions(self) -> Iterator[str]:
        """The expert's steps in words already seen, perhaps with a stumble on the way, then the answer."""
        scenario = self.scenario
        plan = [*scenario.plan, ("answer", ())]
        stumble = self._random.choice(self.STUMBLES) if self.env.max_turns > len(plan) else ""
        seen = self.observation
        if stumble == "search" and (missing := self._missing_keywords(scenario)):
            yield from self._without_imitation(search(missing))
        for (tool, arguments), (next_tool, next_arguments) in itertools.pairwise(plan):
            if tool == "search" and next_tool == "read":
                (wanted,) = next_arguments
                yield search(self._seen_keywords(arguments, wanted, scenario, seen, 1 + (stumble == "read")))
                others = [hit for hit in hit_ids(self.observation) if hit != wanted]
                if stumble == "read" and others:
                    stumble = ""
                    yield from self._without_imitation(read(self._random.choice(others)))
            elif tool == "search" and scenario.answerable:
                yield from self._without_imitation(_step(tool, arguments))
            else:
                yield _step(tool, arguments)
            seen += self.observation
        yield from self.answers(scenario) if scenario.plan else super().actions()

    def _without_imitation(self, action: str) -> Iterator[str]:
        self.imitate = False
        yield action
        self.imitate = True

    def _seen_keywords(
        self, planned: Sequence[str], message_id: str, scenario: Scenario, seen: str, least_hits: int
    ) -> list[str]:
        """The keywords that list the mail highest among the fewest hits, but no fewer than `least_hits` if possible.

        The choice is among the planned keywords that were seen and the question's words by one, two and three, names
        first. Where none of them lists the mail, these are the planned keywords.
        """
        words = telling_words(scenario.question)[: self._MAX_WORDS]
        known = [word for word in sorted(planned, key=is_name, reverse=True) if word.casefold() in seen.casefold()]
        best, best_place = list(planned), (True, self.env.max_results, 0)
        choices = itertools.chain([known], *(itertools.combinations(words, count) for count in (1, 2, 3)))
        for choice in filter(None, choices):
            ids = [hit.message_id for hit in self.env.toolbox.search(scenario, choice).hits]
            if message_id in ids and (place := (len(ids) < least_hits, ids.index(message_id), len(ids))) < best_place:
                best, best_place = list(choice), place
        return best

    def _missing_keywords(self, scenario: Scenario) -> list[str]:
        """Words of the question that no mail holds together, as a hasty searcher would take them; else none."""
        words = content_words(scenario.question)
        for count in (2, 2, 3, 3, 4):
            chosen = self._random.sample(words, min(count, len(words)))
            if not chosen:
                break
            if not self.env.toolbox.search(scenario, chosen).hits:
                return chosen
        return []


def _question_words(scenario: Scenario) -> list[str]:
    return content_words(scenario.question)[:2] or ["answer"]


def _step(tool: str, arguments: tuple[str, ...]) -> str:
    if tool == "search":
        return search(list(arguments))
    if tool == "read" and len(arguments) == 1:
        return read(arguments[0])
    raise ValueError(f'A plan has steps ("search", keywords) and ("read", (message id,)), got {(tool, arguments)!r}.')
