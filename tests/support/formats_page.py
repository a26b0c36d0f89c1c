"""The text of docs/formats.md, from the code's dataclasses; ``python -m tests.support.formats_page`` writes it."""

import re
from collections.abc import Iterator, Mapping

from email_env.scenarios.scenario import Scenario
from grpo.doctor.rollouts import Rollout
from grpo.types import Episode, ModelCall
from tests import ROOT

PAGE = ROOT / "docs" / "formats.md"

INTRODUCTION = """\
# Formats

You want to write a file that a command reads, or to read a file that it writes.

A JSONL file has one JSON object a line. A damaged line is named with its number. This page is made from the code (`python -m tests.support.formats_page`).

| file | who writes it | who reads it |
|---|---|---|
| [tasks](#tasks) | you | `--tasks` of `grpo-train`, `grpo-eval`, `grpo-play` |
| [a log](#logs-and-demonstrations) | your agents, gateways | `grpo-sft --data` |
| [answers](#answers) | you | `grpo-eval --agent file:ANSWERS.jsonl` |
| [scenarios](#scenarios) | you, `make-scenarios` | `EmailSearch-v0` (`EMAIL_ENV_SCENARIOS`, `scenarios=`), `build-enron-db` |
| [rollouts](#rollouts) | a trainer of yours | `grpo-doctor --rollouts` |
| [labelled groups](#labelled-groups) | you | `grpo-judge calibrate` |
| `results.jsonl`, `trajectories/step-0007.jsonl`, `eval/LABEL.jsonl`: [episodes](#episodes) | `grpo-eval`, `grpo-train` | `grpo-view`, `grpo-compare`, `grpo-sft --from-run`, `grpo-sft --data` |
| `summary.json`, `eval/LABEL.json`: [summaries](#summaries) | `grpo-eval`, `grpo-train` | `grpo-view` |
| `metrics.jsonl`, `warmstart.jsonl`: [metrics](metrics.md) | `grpo-train`, `grpo-sft` | `grpo-view`, `--track` |
| `config.json`: [settings](settings.md) | `grpo-train`, `grpo-eval` | `--resume`, `--recipe` |
"""

TASKS = """\
{"id": "q1", "prompt": "Which ticket was opened for the missing parts?", "answer": ["T-41115", "41115"], "split": "train"}
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 4 + 4?"}], "answer": 8}
"""

LOG = """\
{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], "reward": 1}
{"request": {"messages": [{"role": "user", "content": "3 + 3?"}]}, "response": {"choices": [{"message": {"role": "assistant", "content": "6"}, "finish_reason": "stop"}]}}
{"request": {"input": "4 + 4?"}, "response": {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "8"}]}]}, "metadata": {"score": 0.5}}
"""

ANSWERS = """\
{"scenario_id": "test-01-007", "answer": "PO-5746", "sources": ["m3007"]}
{"scenario_id": "test-01-008", "sample": 0, "answer": null}
"""

LABELLED = """\
{"trajectories": [[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "5"}]], "labels": [1, 0]}
"""

ROLLOUTS = """\
{"ids": [1, 9690, 2], "mask": [0, 1, 1], "logprobs": [-0.02, -0.01], "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
"""

OF_TASKS = {
    "prompt": "the user's message; or `messages`: OpenAI's, the last of them the user's",
    "answer": "a text or a number, or a list of which each is right; without it `--reward` is needed",
    "id": "its name; by default the line's number",
    "split": "`train`, `test` or a name of yours; by default one in five is of `test`, by a hash of its id",
}

OF_ANSWERS = {
    "scenario_id": "the scenario that is answered",
    "answer": "the answer; null: none",
    "sources": "ids of what it rests on; by default none",
    "sample": "which of the samples of `-k` is answered; by default every one",
}

PLAN = 'an expert\'s steps before the final answer: `[["search", ["falcon", "budget"]], ["read", ["m4821"]]]`'

WRITTEN_SO = {"task": ("scenario_id", "env_seed"), "sample_index": ("sample",), "answer": ("answer", "sources")}
"""Names in a line of what an `Episode` calls otherwise."""

NOT_WRITTEN = ("answer_key", "place")

DERIVED = {
    "scenario_id": "the task's name; `seed-N` where the env names no tasks",
    "env_seed": "the seed that the env was reset with",
    "sample": "counts the episodes of one task, from 0",
    "answer": "the final answer, null without one",
    "sources": "what the answer rests on",
    "ending": "[why it ended](how-it-works.md#5-the-episode)",
    "calls": "[model calls](#model-calls)",
    "correct": "whether it was answered right; null where the env has no metric `success`, or the episode counts nowhere",
    "reward": "sum of the env's rewards, or what a judge or a function says; null where the episode counts nowhere",
    "turns": "how many turns the env was handed",
    "error_codes": "how many turns had which error code",
    "model_calls": "number of `calls`",
    "prompt_tokens": "tokens that models were shown",
    "completion_tokens": "tokens that models sampled",
    "cost": "of its model calls, in US dollars; null where it is not known",
}
"""Keys of a line that are no field of an `Episode` under their name, or mean a little more."""

SUMMARY = {
    "label": "the agent, or the evaluation's name in a run (`after-greedy`)",
    "episodes": "episodes that count",
    "failed": "episodes that ended in a fault of the env, a server or a judge; they are in no mean",
    "scenarios": "different tasks among those that count",
    "answers": "episodes with an answer",
    "endings": "how many episodes [ended how](how-it-works.md#5-the-episode)",
    "errors": "the ten most frequent errors: `ending`, `error`, `count`, `first`",
    "error_codes": "how many turns had which error code",
    "seconds": "seconds that this process has played",
    "episodes_per_second": "episodes a second",
    "sampled_tokens_per_second": "sampled tokens a second",
    "metrics": "[means](metrics.md#of-an-evaluation) with `mean`, `low`, `high`",
    "slices": "the same for each slice of the tasks, for example `easy`",
    "pass_at_k": "chance that at least one of k tries is right, by k",
    "pass_hat_k": "chance that all of k tries are right, by k",
    "refusal": "questions without an answer: `episodes`, `correct`, `hallucination_rate`, `false_refusal_rate`; or null",
    "latency": "seconds an episode: `p50`, `p95`",
    "tokens": "sums: `prompt`, `completion`",
    "cost": "sum in US dollars, or null",
    "answer_judge": "`verdicts`, `by_model`, `accepted`, `audited`, `refused`, and of `grpo-eval` `usage`; or null",
    "worst": "the five worst tasks: `scenario_id`, `correct`, `reward`",
}
"""Of every summary."""

OF_EVALUATION = {
    "agent": "as in `--agent`",
    "model": "as in `--model`",
    "env": "its id",
    "split": "the split, or null",
    "seed": "of the evaluation",
    "k": "samples of each task",
    "planned": "episodes that the evaluation has in all",
    "judge_model": "the answer judge, or null",
}
"""Of ``summary.json`` beside."""

OF_RUN = {
    "split": "the split",
    "temperature": "of sampling; 0 is greedy",
    "seed": "of the evaluation",
    "policy": "version of the policy: steps of GRPO",
    "knows_answers": "true of a baseline that knows the answers; else missing",
}
"""Of ``eval/LABEL.json`` beside."""

OF_REQUESTS = """\
| in a request | what happens |
|---|---|
| `messages`, `system`, `instructions`, `input`, `tools` | honoured |
| `max_tokens`, `max_completion_tokens`, `max_output_tokens` | honoured up to `rollout.max_turn_tokens` |
| `stream`, `stream_options` | honoured; the whole turn is sampled first |
| `model` | any name is the policy |
| `temperature`, `top_p`, `seed`, `stop`, `logprobs`, `tool_choice`, `response_format`, `parallel_tool_calls` | neutralised, for what is sampled must be what is trained; kept in the call's `asked` |
| `n` above 1, stored responses (`previous_response_id`), tools that are no functions, images | refused with status 400 |
"""


def page() -> str:
    """The page."""
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield INTRODUCTION
    yield from _section(
        "Tasks", "A line is a task. [Bring your agent](your-agent.md#tasks-in-place-of-an-env) has the commands.", TASKS
    )
    yield from _table(OF_TASKS)
    log = (
        "A line is a chat (`messages`, and `tools` where there were some), a request with its response (chat completions or responses, under `request` and `response`, or in the "
        '`body` of each), or an [episode](#episodes). A message with `"weight": 0` is context. The reward is `reward` or `score`, in the line or in its `metadata`. '
        "[Training](training.md#a-log-of-an-agent-in-production) says what is left out."
    )
    yield from _section("Logs and demonstrations", log, LOG)
    yield from _section("Answers", "A line answers a scenario.", ANSWERS)
    yield from _table(OF_ANSWERS)
    scenarios = (
        "A line is a question of `EmailSearch-v0`. `scenario_id`, `question`, `answer`, `inbox` and `query_date` are needed. "
        "The keys `id` and `inbox_address` are read, too."
    )
    yield from _section("Scenarios", scenarios)
    yield from _table(described(Scenario) | {"plan": PLAN})
    yield from _section(
        "Rollouts",
        "A line is a row that a trainer learns from. [Bring your agent](your-agent.md#check-rollouts-of-any-trainer) has the command.",
        ROLLOUTS,
    )
    yield from _table(described(Rollout))
    yield from _section(
        "Labelled groups",
        "A line is a group: its trajectories, and a label of each. A higher label is better; only the order counts. `tools` and a `rubric` may stand beside.",
        LABELLED,
    )
    yield from _section("Episodes", "A line is an episode of any agent, in training and in evaluation alike.")
    yield from _table(of_episode())
    calls = "`calls` has one object for each request to a model. What has nothing to say is left out; `tools` is null where they are those of the call before."
    yield from _section("Model calls", calls)
    yield from _table(described(ModelCall))
    yield from _section("Summaries", "Of `grpo-eval` and of a run's evaluations:")
    yield from _table(SUMMARY)
    yield "In `summary.json` of `grpo-eval` beside:\n"
    yield from _table(OF_EVALUATION)
    yield "In `eval/LABEL.json` of a run beside:\n"
    yield from _table(OF_RUN)
    asked = "What an agent asks the endpoint of a policy in training (`/chat/completions`, `/responses`, Anthropic's `/messages`):"
    yield from _section("Requests of an agent in training", asked)
    yield OF_REQUESTS


def of_episode() -> dict[str, str]:
    """Keys of an episode's line and what they are."""
    said: dict[str, str] = {}
    for name, meaning in described(Episode).items():
        if name not in NOT_WRITTEN:
            said |= {key: DERIVED.get(key, meaning) for key in WRITTEN_SO.get(name, (name,))}
    return said | {name: meaning for name, meaning in DERIVED.items() if name not in said}


def described(kind: type) -> dict[str, str]:
    """The attributes that a class's docstring describes, in its order, with what it says of each."""
    section = (kind.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z|^ {4}\S|^\s*$)", section, re.M | re.S)
    return {name: _plain(text) for name, text in entries}


def _plain(text: str) -> str:
    text = " ".join(text.replace("``", "`").split()).rstrip(".").replace("None", "null")
    text = re.sub(r" \(`[\w.]+`\)|; see `[\w.]+`", "", text)  # names of modules say nothing to who reads files
    return text if text[1:2].isupper() or text.startswith("OpenAI") else text[:1].lower() + text[1:]


def _section(title: str, text: str, example: str = "") -> Iterator[str]:
    yield f"## {title}\n\n{text}\n"
    if example:
        yield f"```text\n{example}```\n"


def _table(meanings: Mapping[str, str]) -> Iterator[str]:
    yield "| key | what it is |"
    yield "|---|---|"
    for name, meaning in meanings.items():
        yield f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
