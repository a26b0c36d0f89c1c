"""A made-up run directory with a hostile mail in it, for tests of its page."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo.ending import Ending
from grpo.episodes.record import write_episodes
from grpo.episodes.summary import summarise
from grpo.types import Episode, ModelCall, Task

HOSTILE = "</pre></details><script>document.documentElement.dataset.owned='yes'</script><img src=x onerror=\"document.documentElement.dataset.owned=1\">"


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def make_episode(index: int, reward: float, *, solved: bool, **changes: Any) -> Episode:
    difficulty = ("easy", "medium", "hard")[index % 3]
    question = [
        "When does the budget review for Falcon take place now?",
        "Which hotel did Maria book for the Lisbon offsite?",
        "How much did the second quote from Norwind come to?",
    ][index % 3]
    messages = [
        {
            "role": "system",
            "content": "You answer questions from the mailbox anna.keller@brightline.example. Today is 2024-03-20.",
        },
        {"role": "user", "content": question},
        {"role": "assistant", "content": call("search_inbox", keywords=["falcon", "budget review"])},
        {
            "role": "tool",
            "content": "m4821 | 2024-03-05 | Jonas Weber | Re: Falcon budget | moved to Thursday, same room\n"
            f"m4712 | 2024-03-01 | {HOSTILE} | Falcon budget | the review is on Tuesday",
        },
    ]
    if solved:
        messages += [
            {"role": "assistant", "content": call("read_email", message_id="m4821")},
            {
                "role": "tool",
                "content": f"From: Jonas Weber <jonas@x.example>\nSubject: Re: Falcon budget\n\n{HOSTILE}\nWe moved it to Thursday.",
            },
            {"role": "assistant", "content": call("return_final_answer", answer="Thursday", sources=["m4821"])},
        ]
    else:
        messages += [
            {"role": "assistant", "content": 'I think <tool_call>{"name": "read_email", arguments'},
            {"role": "tool", "content": 'Error: the call is not JSON. Write {"name": ..., "arguments": {...}}.'},
            {"role": "assistant", "content": "It is on Tuesday."},
        ]
    flags = {f"difficulty_{name}": float(name == difficulty) for name in ("easy", "medium", "hard")}
    metrics = {
        "success": float(solved), "found": 1.0, "read": float(solved), "turns": 3.0,
        "valid_call_rate": 1.0 if solved else 0.5, "invalid_calls": 0.0 if solved else 1.0, **flags,
    }  # fmt: skip
    episode = Episode(
        "EmailSearch-v0", Task(index, f"test-{index:04d}"), messages=messages, reward=reward, metrics=metrics,
        turn_errors=["", "" if solved else "bad_json", ""], ending=Ending.ANSWERED,
        calls=[ModelCall(version=0, status=200, prompt_tokens=600, completion_tokens=90 + index % 7)],
    )  # fmt: skip
    return replace(episode, **changes)


def save(path: Path, episodes: list[Episode]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_episodes(path, episodes)


def save_evaluation(root: Path, label: str, episodes: list[Episode]) -> None:
    save(root / "eval" / f"{label}.jsonl", episodes)
    temperature = 0.0 if "greedy" in label else 1.0
    summary = summarise(episodes, 31.0, label=label, split="test", temperature=temperature)
    (root / "eval" / f"{label}.json").write_text(json.dumps(summary))


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def make_run(root: Path, *, steps: int = 12, episodes: int = 64) -> Path:
    rng = random.Random(5)
    root.mkdir(parents=True)
    config = {"env": "EmailSearch-v0", "model": "smollm2-135m", "steps": 12, "env_kwargs": {"max_turns": 6},
              "optimizer": {"learning_rate": 3e-4}, "rollout": {"group_size": 8, "groups_per_step": 8}, "seed": 0,
              "judge": {"rubric": None}}  # fmt: skip
    (root / "config.json").write_text(json.dumps(config))
    lines = []
    for step in range(1, steps + 1):
        share = 0.28 + 0.025 * step + rng.uniform(-0.05, 0.05)
        lines.append({
            "step": step, "reward/mean": share * 1.2 - 0.2, "reward/std": 0.5, "env/success": share, "env/found": share + 0.2,
            "env/read": share + 0.1, "env/valid_call_rate": 0.9 + 0.007 * step, "tokens/completion_mean": 110 - step,
            "loss/policy": rng.uniform(-0.02, 0.02), "loss/grad_norm": 0.4 + rng.random() / 4, "loss/entropy": 0.5 - step / 50,
            "gap/mean_abs": 0.002 + rng.random() / 500, "groups/used": 6.0 - step % 3, "groups/dropped": 2.0 + step % 3,
            "time/rollout": 24 + rng.random() * 6, "time/train": 18 + rng.random() * 4, "time/publish": 0.14, "time/step": 46.0,
            "speed/sample_tokens_per_second": 320 + rng.random() * 30, "speed/train_tokens_per_second": 690 + rng.random() * 40,
            "mem/trainer_rss_gb": 2.1 + step / 100,
        })  # fmt: skip
    write_lines(root / "metrics.jsonl", lines)
    warm = [{"step": i, "loss": 2.2 * 0.9**i + 0.1, "seconds": 2.0} for i in range(1, 61)]
    write_lines(root / "warmstart.jsonl", warm)
    for how, chances in (("sampled", (0.3, 0.55)), ("greedy", (0.5, 0.6))):
        for when, chance in zip(("before", "after"), chances, strict=True):
            records = []
            for index in range(episodes):
                solved = rng.random() < chance + (0.15, 0, -0.15)[index % 3]
                reward = 1.3 if solved else rng.choice([-0.8, -0.7, 0.1])
                records.append(make_episode(index, reward, solved=solved))
            save_evaluation(root, f"{when}-{how}", records)
    return root
