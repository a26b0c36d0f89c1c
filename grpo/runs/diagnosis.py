"""The known ways in which training goes nowhere, found in a run's metrics, each once, at the step where it shows.

    for finding in diagnose(read_jsonl(run / "metrics.jsonl")): print(finding.step, finding.text)

It looks at the newest three steps, and at how they differ from the first three. It does not stop a run, and reads
nothing but metrics: a run that is over, or goes on elsewhere, is diagnosed as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

SPAN = 3
"""Steps whose mean is taken: one step says little."""
FIRST_STEPS = 3
"""In these it is measured how far a step moves the policy (`MOVED`)."""
MOVED = "policy/moved"
"""Mean absolute change of a row's log-probabilities by a step's updates, in nats a token."""

_BEGIN_AGAIN = (
    "begin again from the checkpoint before it (--init-adapter) with a lower optimizer.learning_rate or a lower "
    "loss.negative_weight, or from a longer warm start (warm_start.steps)"
)

Steps = Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong.

    Attributes:
        name: Of the way.
        step: Where it shows first.
        metric: Whose curve shows it.
        text: The figure, what it usually means, and what helps.
    """

    name: str
    step: int
    metric: str
    text: str


def diagnose(steps: Steps) -> list[Finding]:
    """What the metrics of a run say, by the order of its steps."""
    found: dict[str, Finding] = {}
    for count in range(1, len(steps) + 1):
        for name, metric, text in _looks(_Course(steps[:count])):
            found.setdefault(name, Finding(name, int(steps[count - 1].get("step", count)), metric, text))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Course:
    steps: Steps

    def newest(self, metric: str) -> float | None:
        """Mean over the newest steps; None where one of them has none."""
        return self._mean(metric, self.steps[-SPAN:])

    def first(self, metric: str) -> float | None:
        """Mean over the first steps; None before there are as many others."""
        return self._mean(metric, self.steps[:SPAN]) if len(self.steps) >= 2 * SPAN else None

    def times(self, metric: str) -> float:
        """The newest as a multiple of the first; 1 where that cannot be said."""
        first, newest = self.first(metric), self.newest(metric)
        return newest / first if newest is not None and first else 1.0

    def rise(self, metric: str) -> float:
        """How much the newest are above the first; 0 where that cannot be said."""
        first, newest = self.first(metric), self.newest(metric)
        return newest - first if first is not None and newest is not None else 0.0

    def now(self, metric: str) -> float:
        """Of the newest step alone; 0 where it has none."""
        return self.steps[-1].get(metric, 0.0)

    def best(self, metric: str) -> float:
        """Of any step; 0 where none has it."""
        return max(step.get(metric, 0.0) for step in self.steps)

    @property
    def gains(self) -> bool:
        """Whether the policy does better than in its first steps: in success where the env tells it, else in reward."""
        metric = "env/success" if "env/success" in self.steps[0] else "reward/mean"
        return self.rise(metric) > 0

    @staticmethod
    def _mean(metric: str, steps: Steps) -> float | None:
        values = [value for step in steps if isinstance(value := step.get(metric), int | float)]
        return fmean(values) if len(values) == SPAN else None


def _looks(course: _Course) -> Iterator[tuple[str, str, str]]:
    """Name, metric and text of each way that the newest step of a course shows."""
    newest, times, rise, now = course.newest, course.times, course.rise, course.now

    if newest("groups/zero_variance_share") == 1.0:
        why = (
            "the policy does these tasks, or fails them, whatever it samples: take harder or other tasks, or "
            "rollout.temperature above 1"
            if course.gains
            else "all members of a group fail, or succeed, alike: a warm start (warm_start.steps, --warm-start-model), "
            "larger groups (rollout.group_size), easier tasks, or a reward with more steps"
        )
        if newest("judge/score") is not None:
            why = "the judge gives all members of a group the same: a rubric that tells them apart (judge.rubric)"
        yield (
            "no spread",
            "groups/zero_variance_share",
            f"No group of the newest {SPAN} steps has rewards that differ, so nothing is learned: {why}",
        )
    if (newest("actions/top_share") or 0.0) >= 0.9:
        yield (
            "one action",
            "actions/top_share",
            f"{newest('actions/top_share'):.0%} of all turns say the same words, whatever the task. The reward may pay "
            "for it, or the policy has no other: look at episodes; lower optimizer.learning_rate, or set loss.kl_coef",
        )
    if not course.gains and times("tokens/calls_mean") <= 0.5:
        yield (
            "turns die out",
            "tokens/calls_mean",
            f"An episode has {newest('tokens/calls_mean'):.1f} turns; it had {course.first('tokens/calls_mean'):.1f}. "
            "The policy stops to use its tools: a try is punished more than none. Lower the penalties of invalid "
            "calls, or give credit for what a tool finds (env_kwargs.reward)",
        )
    if not course.gains and times("tokens/completion_mean") >= 2.0:
        yield (
            "growing answers",
            "tokens/completion_mean",
            f"Episodes have grown from {course.first('tokens/completion_mean'):.0f} to "
            f"{newest('tokens/completion_mean'):.0f} sampled tokens, for no gain: loss.type = dr_grpo or dapo, a lower "
            "rollout.max_turn_tokens, or a reward that pays for brevity",
        )
    if not course.gains and times("tokens/completion_mean") <= 0.4:
        yield (
            "shrinking answers",
            "tokens/completion_mean",
            f"Episodes have shrunk from {course.first('tokens/completion_mean'):.0f} to "
            f"{newest('tokens/completion_mean'):.0f} sampled tokens, for no gain: the shortest way is rewarded as well "
            "as any. Let the reward tell a try from none",
        )
    cut = now("turns/cut_share")
    if cut > 0.2 or (cut := newest("turns/cut_share") or 0.0) > 0.08:
        yield (
            "cut turns",
            "turns/cut_share",
            f"{cut:.0%} of the turns were cut for their length (rollout.max_turn_tokens), and the env read what there "
            "was of them; raise it, or ask for short turns",
        )
    if (newest("reward/idle_advantage") or 0.0) > 0 and rise("episodes/idle_share") >= 0.15:
        yield (
            "giving up pays",
            "episodes/idle_share",
            f"{newest('episodes/idle_share'):.0%} of the episodes give up, and earn "
            f"{newest('reward/idle_advantage'):.2f} more than others of their group that fail. The policy learns to do "
            "nothing: reward a wrong try above giving up (env_kwargs.reward.no_answer)",
        )
    if not course.gains and times("loss/entropy") <= 0.1:
        yield (
            "entropy collapse",
            "loss/entropy",
            f"Entropy has fallen from {course.first('loss/entropy'):.3g} to {newest('loss/entropy'):.3g} nats a token, "
            "for no gain: the policy samples one way alone. Lower optimizer.learning_rate, raise loss.clip_high or "
            "rollout.temperature, and begin from an earlier checkpoint",
        )
    if (newest("gap/mean_abs") or 0.0) >= 0.05 and times("gap/mean_abs") >= 5.0:
        yield (
            "growing gap",
            "gap/mean_abs",
            f"Sampler and trainer differ by {newest('gap/mean_abs'):.2g} nats a token, and by "
            f"{course.first('gap/mean_abs'):.2g} at first. The updates learn from tokens of another policy: dtype = "
            "float32 shows whether it is rounding; lower optimizer.learning_rate or rollout.max_staleness",
        )
    if (newest("judge/disagreement") or 0.0) >= 0.4:
        yield (
            "judge against env",
            "judge/disagreement",
            f"The judge orders {newest('judge/disagreement'):.0%} of the pairs that the env can tell apart the other "
            "way; 50 % is chance. Another judge or rubric (grpo-judge calibrate), or --reward env+ruler",
        )
    if rise("reward/mean") > 0.2 * now("reward/std") and rise("env/success") <= -0.1:
        yield (
            "exploited reward",
            "env/success",
            f"The reward has risen by {rise('reward/mean'):.2f} while success fell by {-rise('env/success'):.0%}. The "
            "policy has found what pays without doing the task: look at its best episodes, and mend the reward",
        )
    if (best := course.best("env/valid_call_rate")) - now("env/valid_call_rate") >= 0.3:
        yield (
            "forgotten form",
            "env/valid_call_rate",
            f"{now('env/valid_call_rate'):.0%} of the calls can be run; it was {best:.0%}. The updates unlearn how "
            f"a call is written: {_BEGIN_AGAIN}",
        )
    if (spread := course.first("reward/std") or 0.0) and rise("reward/mean") <= -0.5 * spread:
        yield (
            "getting worse",
            "reward/mean",
            f"The reward has fallen from {course.first('reward/mean'):.2f} to {newest('reward/mean'):.2f}, by more "
            f"than half of the spread within a step: {_BEGIN_AGAIN}",
        )
    if len(course.steps) == FIRST_STEPS and (moved := newest(MOVED)) is not None and moved < 1e-4:
        yield (
            "rate too small",
            MOVED,
            f"A step moves a token's log-probability by {moved:.1g} nats, so nothing will change: raise "
            "optimizer.learning_rate (2e-5 for models of 7B, 2e-4 for small ones) or optimizer.updates_per_step",
        )
    if now(MOVED) > 1.0:
        yield (
            "rate too large",
            MOVED,
            f"One step moved a token's log-probability by {now(MOVED):.1f} nats, which breaks most policies: lower "
            "optimizer.learning_rate, or optimizer.max_grad_norm, and begin again",
        )
