"""`EmailSearch-v0`: answer a question from one person's mailbox by calling tools, turn by turn.

    env = gymnasium.make("email_env:EmailSearch-v0", split="test")
    question, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step('<tool_call>{"name": ...}</tool_call>')

Observations and actions are text. `info["messages"]` carries the same as chat messages: `reset` gives the whole
beginning, `step` only what is to be appended.

No action raises. A call that cannot be run gets an error text, costs a small penalty and does not end the episode. A
turn of prose without a call is an implicit final answer and ends it. Exceptions mean that the program which drives the
environment made a mistake. The environment sees no tokens and calls no model. It depends on the seed alone, never on
the clock.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import gymnasium

from email_env.cache import demo_database
from email_env.errors import ConfigurationError, EpisodeError, ToolInputError, check_choice
from email_env.policies import SCRIPTED_POLICIES
from email_env.reward import RewardConfig, Score, reward_config
from email_env.scenarios.catalog import Catalog
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase
from email_env.search.query import MAX_RESULTS, MAX_SNIPPET_WORDS, whole_number
from email_env.spaces import TextSpace, ToolCallSpace
from email_env.tools import prompts
from email_env.tools.actions import MAX_ACTION_CHARS, parse_action
from email_env.tools.schemas import ToolOptions, tool_schemas
from email_env.tools.toolbox import MAX_ANSWER_CHARS, Answer, Toolbox, ToolResult
from judges.common.text import as_utf8
from judges.common.tool_calls import ErrorCode, Fault

MAX_CALLS_PER_ACTION = 8


class StopReason(StrEnum):
    """Why an episode ended."""

    NONE = ""
    """It goes on."""
    ANSWER = "answer"
    """The agent gave its final answer: terminated."""
    MAX_TURNS = "max_turns"
    """The agent used up its turns: truncated."""


class EmailSearchEnv(gymnasium.Env[str, str]):
    """Questions about the mail of one inbox each.

    Args:
        db_path: a mail database; by default `$EMAIL_ENV_DB`, else the demo mailboxes, built at first use.
        scenarios: a list of `Scenario`, a JSONL file or the hub's `corbt/enron_emails_sample_questions`; by default
            `$EMAIL_ENV_SCENARIOS`, else those in the database. Scenarios that the database cannot serve are left out
            and listed in `misfits`.
        split: "train", "validation" or "test"; None for all.
        difficulties: only scenarios of these grades ("easy", "medium", "hard"); None for all.
        max_turns: the episode is truncated after so many actions.
        max_results: a search shows at most so many hits, 1 to 10.
        snippet_words: words of the body in a search hit, 1 to 64.
        max_body_chars: characters of a mail's body that reading shows.
        order: order of search hits, "newest" or "relevance".
        fallback_any: what a search shows where few or no mails have all keywords. "fill": the list is filled up with
            mail that has some of their words, best match first. True: mail with any of the keywords, but only where no
            mail has them all. False: nothing else.
        terse: for small models: tools without `offset`, and search results without counts of what is not shown.
        repeat_question: for small models: the question stands again below a mail that is read.
        reward: constants that differ from the defaults of `RewardConfig`.
        render_mode: None, or "ansi" for the transcript so far.

    Raises:
        ConfigurationError: an argument makes no sense.
        UnknownScenarioError: there are no such scenarios, or none that the database can serve.

    Attributes:
        misfits: scenario id -> why the database cannot serve this scenario.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]
    scripted_policies = SCRIPTED_POLICIES

    def __init__(
        self,
        db_path: str | Path | None = None,
        scenarios: str | Path | Sequence[Scenario] | None = None,
        split: str | None = "train",
        difficulties: Sequence[str] | str | None = None,
        max_turns: int = 10,
        max_results: int = 8,
        snippet_words: int = 24,
        max_body_chars: int = 4000,
        order: str = "newest",
        fallback_any: bool | str = "fill",
        terse: bool = False,
        repeat_question: bool = False,
        reward: RewardConfig | Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_choice("order", order, ("newest", "relevance"))
        check_choice("render_mode", render_mode, ("ansi", None))
        check_choice("fallback_any", fallback_any, (True, False, "fill"))
        check_choice("terse", terse, (True, False))
        check_choice("repeat_question", repeat_question, (True, False))
        try:
            whole_number(max_turns, "max_turns", 10_000)
            whole_number(max_results, "max_results", MAX_RESULTS)
            whole_number(snippet_words, "snippet_words", MAX_SNIPPET_WORDS)
            whole_number(max_body_chars, "max_body_chars", 1_000_000)
        except ToolInputError as error:
            raise ConfigurationError(str(error)) from None
        self.split = split
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.reward_config = reward_config(reward)
        self.database = MailDatabase(db_path or os.environ.get("EMAIL_ENV_DB") or demo_database())
        options = ToolOptions(max_results, snippet_words, max_body_chars, order, fallback_any, terse, repeat_question)
        self.toolbox = Toolbox(self.database, options)
        if scenarios is None:
            scenarios = os.environ.get("EMAIL_ENV_SCENARIOS") or None
        self.catalog = Catalog(self.database, scenarios, difficulties)
        self.misfits = self.catalog.misfits
        self.catalog.of(split)
        self._max_observation_chars = max(16_384, 2 * max_body_chars)
        self.observation_space = TextSpace(self._max_observation_chars)
        self.action_space = ToolCallSpace(MAX_ACTION_CHARS)
        self.scenario: Scenario | None = None
        self._score: Score | None = None
        self._stopped = StopReason.NONE
        self._transcript: list[str] = []

    def scenario_ids(self) -> list[str]:
        """Ids of the chosen split's scenarios, in their order; `reset(options={"index": i})` takes the i-th."""
        return list(self.catalog.of(self.split))

    def integrity_problems(self) -> list[str]:
        """What is damaged in the mail database, one text each; empty where all is well."""
        return self.database.integrity_problems()

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the database file and of the split's scenarios; an evaluation has to name both."""
        with open(self.database.path, "rb") as file:
            database = hashlib.file_digest(file, "sha256").hexdigest()
        chosen = [scenario.to_dict() for scenario in self.catalog.of(self.split).values()]
        scenarios = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()
        return {"database": database, "scenarios": scenarios}

    def answer_key(self) -> dict[str, Any] | None:
        """The running episode's question, every right answer, and the `answer` that was given, None where none was.

        For an answer judge, never for an agent. None before the first `reset`, and where the mailbox does not hold the
        answer: then only "I don't know" is right, which the environment recognises itself.
        """
        scenario = self.scenario
        if scenario is None or not scenario.answerable:
            return None
        given = self._score.answer.text if self._score and self._score.answer else None
        return {
            "question": scenario.question,
            "references": [scenario.answer, *scenario.accepted],
            "answer": given,
        }

    def judged(self, right: bool) -> tuple[float, dict[str, float]]:
        """Reward and metrics of the whole episode, had a judge marked its answer so; the episode stays as it is.

        Raises:
            EpisodeError: no answer was given.
        """
        if self._score is None or self._score.answer is None:
            raise EpisodeError("There is no answer to mark. An episode has one when step() gives stop_reason 'answer'.")
        score = self._score.judged(right)
        return score.reward, score.metrics()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins an episode.

        Args:
            seed: the same seed chooses the same scenario.
            options: `scenario_id` or `index` names the scenario, `split` the set to choose from.

        Returns:
            The question; info with `messages`, `tools`, `scenario_id` and `metrics`.

        Raises:
            UnknownScenarioError: no such scenario; the nearest ids are named.
            ConfigurationError: an option is unknown or contradicts another.
        """
        super().reset(seed=seed)
        scenario = self.catalog.choose(options or {}, self.split, self.np_random)
        self.scenario = scenario
        self._score = Score(self.reward_config, scenario, self.max_turns)
        self._stopped = StopReason.NONE
        question = self._fit(scenario.question)
        messages = [
            {"role": "system", "content": prompts.system_message(scenario, self.max_turns)},
            {"role": "user", "content": question},
        ]
        self._transcript = [_spoken(message["role"], message["content"]) for message in messages]
        return question, {
            "messages": messages,
            "tools": tool_schemas(self.toolbox.options),
            "scenario_id": scenario.scenario_id,
            "metrics": self._score.metrics(),
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes one assistant turn and runs its calls in order, up to the final answer.

        Args:
            action: the turn as text, in one of the forms that `judges.common.tool_calls` reads.

        Returns:
            The results as text, the reward, terminated, truncated, and info with `messages` (to append),
            `metrics`, `error` (of the first invalid call, "" if there is none) and `stop_reason`.

        Raises:
            EpisodeError: there is no running episode. No action raises.
        """
        score, scenario = self._score, self.scenario
        if score is None or scenario is None:
            raise EpisodeError("There is no episode yet. Call reset() before step().")
        if self._stopped:
            raise EpisodeError(f"The episode has ended ({self._stopped}). Call reset() before the next step().")
        score.turns += 1
        results = self._run(action, scenario, score)
        if score.answer is not None:
            self._stopped = StopReason.ANSWER
        elif score.turns >= self.max_turns:
            self._stopped = StopReason.MAX_TURNS
        if self._stopped:
            score.finish()
        messages = self._messages(results)
        text = "\n\n".join(message["content"] for message in messages)
        self._transcript.append(_spoken("assistant", action))
        self._transcript += [_spoken(message["role"], message["content"]) for message in messages]
        reward = score.claim()
        info = {
            "messages": messages,
            "metrics": score.metrics(),
            "error": next((result.error.value for result in results if result.error), ""),
            "stop_reason": self._stopped.value,
        }
        terminated, truncated = self._stopped is StopReason.ANSWER, self._stopped is StopReason.MAX_TURNS
        return text, reward, terminated, truncated, info

    def render(self) -> str | None:  # type: ignore[override]
        """The transcript so far where `render_mode` is "ansi", else None."""
        return "\n\n".join(self._transcript) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Closes the database; may be called twice."""
        self.database.close()

    def _run(self, action: object, scenario: Scenario, score: Score) -> list[ToolResult]:
        turn = parse_action(action)
        if turn.text:
            score.settle(Answer(turn.text[:MAX_ANSWER_CHARS], implicit=True))
            return [ToolResult(prompts.ANSWER_RECEIVED)]
        calls = turn.items
        if len(calls) > MAX_CALLS_PER_ACTION:
            message = f"a turn may have {MAX_CALLS_PER_ACTION} calls, got {len(calls)}; the rest was not run."
            calls = (*calls[:MAX_CALLS_PER_ACTION], Fault(ErrorCode.BAD_ARGS, message))
        results: list[ToolResult] = []
        for call in calls:
            result = self.toolbox.run(call, scenario)
            score.note(result)
            results.append(result)
            if result.answer is not None:
                break
        return results

    def _messages(self, results: Sequence[ToolResult]) -> list[dict[str, Any]]:
        """A tool message for each call, or a user message where the turn had no call.

        Together they fit into the observation space.
        """
        room = self._max_observation_chars // len(results) - 2
        messages: list[dict[str, Any]] = []
        for result in results:
            no_call = result.error in (ErrorCode.NO_TOOL_CALL, ErrorCode.BAD_JSON) and not result.call_id
            message = {"role": "user" if no_call else "tool", "content": self._fit(result.text, room)}
            messages.append(message | ({"tool_call_id": result.call_id} if result.call_id else {}))
        return messages

    def _fit(self, text: str, max_chars: int | None = None) -> str:
        """The text cut to the limit, as valid UTF-8, so that the observation space contains it."""
        most = self._max_observation_chars if max_chars is None else max_chars
        text = text if len(text) <= most else f"{text[: most - 4]} ..."
        return as_utf8(text)


def _spoken(role: str, content: object) -> str:
    return f"{role.capitalize()}: {content}"
