"""How far an evaluation is: ``37/100  correct 43.2 %  errors 2  tokens 81,204  0.8/s  1 min 19 s left``."""

from typing import Any

from grpo.display.metrics import CORRECT, RunningMean
from grpo.display.terminal import Bar
from grpo.types import Episode


class EvaluationProgress(Bar):
    """Counts results; ``Display.progress`` makes it and shows it."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.errors = 0
        self.tokens = 0
        self.cost = 0.0
        self.correct = RunningMean()
        self.reward = RunningMean()

    def add(self, episode: Episode, *, earlier: bool = False) -> None:
        """Count an episode; ``earlier`` ones were played by a former process."""
        self.earlier += earlier
        self.errors += not episode.ending.compared
        self.tokens += episode.num_prompt_tokens + episode.num_sampled_tokens
        self.cost += episode.cost or 0.0
        if episode.correct is not None:
            self.correct.add(float(episode.correct))
        if episode.ending.counted:
            self.reward.add(episode.reward)
        self.update()

    def parts(self) -> list[str]:
        """How good, what failed, and what it took."""
        score = "no score yet"
        if self.correct.count:
            score = f"correct {CORRECT.format(self.correct.mean)}"
        elif self.reward.count:
            score = f"reward {self.reward.mean:.3f}"
        tokens = [f"tokens {self.tokens:,}"] if self.tokens else []
        return [score, f"errors {self.errors}", *tokens, *([f"${self.cost:.4f}"] if self.cost else [])]
