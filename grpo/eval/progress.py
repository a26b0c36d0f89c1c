"""How far an evaluation is: ``37/100  correct 43.2 %  errors 2  tokens 81,204  0.8/s  1 min 19 s left``."""

from __future__ import annotations

from typing import Any

from grpo.display.metrics import RunningMean, short_duration
from grpo.display.terminal import Bar
from grpo.types import Episode


class EvaluationProgress(Bar):
    """Counts results; ``Display.progress`` makes it and shows it."""

    always_ends = True

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.errors = 0
        self.tokens = 0
        self.cost = 0.0
        self.correct = RunningMean()
        self.reward = RunningMean()
        self._played = 0

    def add(self, episode: Episode, *, earlier: bool = False) -> None:
        """Count an episode; ``earlier`` ones were played by a former process and say nothing about speed."""
        self._played += not earlier
        self.errors += not episode.ending.compared
        self.tokens += episode.num_prompt_tokens + episode.num_sampled_tokens
        self.cost += episode.cost or 0.0
        if episode.correct is not None:
            self.correct.add(float(episode.correct))
        if episode.ending.counted:
            self.reward.add(episode.reward)
        self.update()

    def status(self) -> str:
        """The line."""
        if self.correct.count:
            score = f"correct {100 * self.correct.mean:.1f} %"
        else:
            score = f"reward {self.reward.mean:.3f}" if self.reward.count else "no score yet"
        parts = [f"{self.done}/{self.total}", score, f"errors {self.errors}"]
        if self.tokens:
            parts.append(f"tokens {self.tokens:,}")
        if self.cost:
            parts.append(f"${self.cost:.4f}")
        if self._played and self.seconds > 0:
            rate, left = self._played / self.seconds, self.total - self.done
            parts += [f"{rate:.3g}/s", f"{short_duration(left / rate)} left"][: 2 if left else 1]
        return "  ".join(parts)
