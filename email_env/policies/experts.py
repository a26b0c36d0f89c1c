"""Experts, who know the scenario's answer and evidence: one that is always right, and one to imitate."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from email_env.policies.policy import PlayedEnv, ScriptedPolicy, answer, hit_ids, read, search
from email_env.policies.words import content_words, is_name, telling_words
from email_env.scenarios.scenario import DONT_KNOW, Scenario

Step = tuple[str, dict[str, Any]]


class OraclePolicy(ScriptedPolicy):
    """The expert: follows the scenario's plan, or finds the evidence by its subject, and gives the reference answer.

    It always answers on the last turn at the latest. `seed` changes nothing.
    """

    knows_answers = True
    """The experts alone look at the scenario's answer: a policy that is trained need not be better."""

    def actions(self) -> Iterator[str]:
        """Searches and reads as planned, then answers."""
        scenario = self.scenario
        calls = [self._call(*step) for step in self._plan(scenario)]
        yield from calls[: self.env.max_turns - 1]
        yield from self.answers(scenario)

    def answers(self, scenario: Scenario) -> Iterator[str]:
        """The reference answer, as often as it is asked for."""
        text = scenario.answer if scenario.answerable else DONT_KNOW
        return answer(text, [self._shown(message_id) for message_id in scenario.message_ids])

    def _plan(self, scenario: Scenario) -> list[Step]:
        """The scenario's plan, else a search and a read for each piece of evidence; for none, the question's words."""
        if scenario.plan:
            return [_planned(*step) for step in scenario.plan]
        plan: list[Step] = []
        for message_id in scenario.message_ids:
            plan.append(("search", self._finding(message_id, scenario)))
            plan.append(("read", {"message_id": message_id}))
        return plan or [("search", {"keywords": _question_words(scenario)})]

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        """A step of a plan as a call."""
        return search(**arguments) if tool == "search" else read(self._shown(arguments["message_id"]))

    def _shown(self, message_id: str) -> str:
        """An id as the env shows it."""
        return self.env.toolbox.shown_id(message_id)

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
            if any(hit.message_id == email.message_id for hit in self.env.toolbox.finder.find(scenario, **choice).hits):
                return choice
        return choices[-1] if choices else {"keywords": [message_id]}


class TutorPolicy(OraclePolicy):
    """The expert for warm starts: shows what a small model can copy, and how to recover.

    It searches for the words of the question, in their order, because an expert's synonyms would teach a small model to
    invent words. It reads what is listed from the top until it has the right mail. If that is not listed, it searches
    again: for words that were seen and list it highest, else for those of the expert's plan. Where all keywords must
    occur (`fallback_any=False`), it begins with the second search.

    In two episodes of three (by `seed`) the tutor stumbles if there are turns enough: it begins with a search that
    finds nothing, or it reads another mail of the list before the right one. `imitate` is False during such a step:
    only the recovery is to be imitated. A policy that never saw a search without hits has no answer to one, and invents
    a message id.
    """

    STUMBLES: ClassVar[tuple[str, ...]] = ("", "search", "read")
    _MAX_COPIED: ClassVar[int] = 8
    _MAX_CHOSEN: ClassVar[int] = 5

    def __init__(self, env: PlayedEnv, *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self.imitate = True
        self._random = random.Random(seed)
        self._spare = 0  # turns beyond those of the plan

    def actions(self) -> Iterator[str]:
        """Searches in words already seen and reads from the top, perhaps with a stumble on the way, then the answer."""
        scenario = self.scenario
        steps = self._plan(scenario)
        if any(tool == "search" and arguments.keys() != {"keywords"} for tool, arguments in steps):
            steps = []  # keywords alone do not find the evidence
        plan: list[Step] = [*steps, ("answer", {})]
        self._spare = self.env.max_turns - len(plan)
        stumble = self._random.choice(self.STUMBLES)
        seen, copied = self.observation, []
        if self.env.toolbox.options.fallback_any:
            copied = content_words(scenario.question)[: self._MAX_COPIED]
        if stumble == "search" and self._spare > 0 and (missing := self._missing_keywords(scenario)):
            self._spare -= 1
            yield from self._without_imitation(search(missing))
        for (tool, arguments), (next_tool, next_arguments) in itertools.pairwise(plan):
            if tool == "search" and next_tool == "read":
                wanted = next_arguments["message_id"]
                yield from self._searches(copied, arguments["keywords"], wanted, seen)
                yield from self._reads_before(self._shown(wanted), stumble == "read")
                copied, stumble = [], ""
            elif tool == "search" and scenario.answerable:
                yield from self._without_imitation(self._call(tool, arguments))
            elif tool == "search" and copied:
                yield search(copied)
                copied = []
            else:
                yield self._call(tool, arguments)
            seen += self.observation
        yield from self.answers(scenario) if steps else super().actions()

    def _searches(self, copied: list[str], planned: Sequence[str], wanted: str, seen: str) -> Iterator[str]:
        """A search with the copied words; another one where there are none, or where they do not list the mail."""
        if copied:
            listed = self._place(copied, wanted) is not None
            if listed or self._spare > 0:
                yield search(copied)
            if listed:
                return
            self._spare -= 1
        yield search(self._seen_keywords(planned, wanted, seen + self.observation))

    def _reads_before(self, wanted: str, stumbles: bool) -> Iterator[str]:
        """Reads of mails that are listed above the right one, or of any other, as a stumble."""
        listed = hit_ids(self.observation)
        others = [hit for hit in listed if hit != wanted]
        if stumbles and others and self._spare > 0:
            self._spare -= 1
            yield from self._without_imitation(read(self._random.choice(others)))
        elif wanted in listed:
            for hit in listed[: min(listed.index(wanted), max(0, self._spare))]:
                self._spare -= 1
                yield read(hit)

    def _without_imitation(self, action: str) -> Iterator[str]:
        self.imitate = False
        yield action
        self.imitate = True

    def _seen_keywords(self, planned: Sequence[str], wanted: str, seen: str) -> list[str]:
        """The keywords that list the mail highest among the fewest hits.

        The choice is among the planned keywords that were seen and the question's words by one, two and three, names
        first. Where none of them lists the mail, these are the planned keywords.
        """
        words = telling_words(self.scenario.question)[: self._MAX_CHOSEN]
        known = [word for word in sorted(planned, key=is_name, reverse=True) if word.casefold() in seen.casefold()]
        best, best_place = list(planned), (self.env.toolbox.options.max_results, 0)
        choices = itertools.chain([known], *(itertools.combinations(words, count) for count in (1, 2, 3)))
        for choice in filter(None, choices):
            place = self._place(choice, wanted)
            if place is not None and place < best_place:
                best, best_place = list(choice), place
        return best

    def _place(self, keywords: Sequence[str], wanted: str) -> tuple[int, int] | None:
        """How many hits a search lists above the mail, and how many in all; None if it does not list it."""
        ids = [hit.message_id for hit in self.env.toolbox.finder.find(self.scenario, keywords).hits]
        return (ids.index(wanted), len(ids)) if wanted in ids else None

    def _missing_keywords(self, scenario: Scenario) -> list[str]:
        """Words of the question that no mail holds together, as a hasty searcher would take them; else none."""
        words = content_words(scenario.question)
        for count in (2, 2, 3, 3, 4):
            chosen = self._random.sample(words, min(count, len(words)))
            if not chosen:
                break
            if not self.env.toolbox.finder.find(scenario, chosen).hits:
                return chosen
        return []


def _planned(tool: str, arguments: tuple[str, ...]) -> Step:
    """A step of a scenario's plan, with its arguments by name."""
    if tool == "search":
        return tool, {"keywords": list(arguments)}
    if tool == "read" and len(arguments) == 1:
        return tool, {"message_id": arguments[0]}
    raise ValueError(f'A plan has steps ("search", keywords) and ("read", (message id,)), got {(tool, arguments)!r}.')


def _question_words(scenario: Scenario) -> list[str]:
    return content_words(scenario.question)[:2] or ["answer"]
