"""What a step trains on, how it came about, and what is logged of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from grpo.display.capture import captured, context_full
from grpo.display.metrics import counted
from grpo.ending import Ending
from grpo.episodes.summary import step_means
from grpo.learner.segments import Segment
from grpo.settings import RolloutSettings
from grpo.training.rewards import verifiable_class
from grpo.types import Episode, Group
from judges.reliability.agreement import PairCounts, count_pairs

MANY_CUT_TURNS = 0.05
"""Share of turns that end for their length above which a step says so: a policy that still learns rambles at times."""


@dataclass(slots=True)
class Batch:
    """What a step trains on and how it came about."""

    groups: list[Group]
    """With rewards that differ: the members that are learned from; their advantages are filled in."""
    rewarded: list[Group]
    """All that have rewards, those without spread too; without the episodes that were cut."""
    segments: list[Segment]
    sampled: list[Episode]
    """Every episode, with the reward it got; failed ones too."""
    dropped: int
    """Groups without rewards or without spread."""
    unrewarded: int
    """Of these, those without rewards although an episode was whole: the judge gave no verdict."""
    stale: int
    """Groups that were dropped because the next step may not learn from the policy that played them, or is none."""
    seconds: float
    """Until the batch was there; what was played before is not in it."""
    sampling_seconds: float
    """Since the batch before was there; without one, as ``seconds``."""
    found_tokens: int = 0
    """Sampled before the run was interrupted, in groups that were finished then."""
    judge_cost_usd: float | None = None
    """What judging it has cost, where that is known."""
    answer_cost_usd: float | None = None
    """What its answer judge has cost, where that is known."""

    def metrics(self) -> dict[str, float]:
        """Means over the step's episodes that did not fail; rewards over those that were played out and have one.

        ``episodes/used`` counts those that are learned from; ``reward/used_std`` is the standard deviation of their
        rewards within a group, mean over groups.
        """
        whole = [episode for episode in self.sampled if episode.ending.counted]
        means = step_means(whole)
        means.pop("reward/mean", None)  # here it is that of rewarded groups
        rewards = [reward for group in self.rewarded for reward in group.rewards]
        metrics = {
            **({"reward/mean": fmean(rewards), "reward/std": pstdev(rewards)} if rewards else {}),
            **means,
            "tokens/total_mean": sum(episode.num_tokens for episode in whole) / max(1, len(whole)),
            "groups/used": float(len(self.groups)),
            "groups/dropped": float(self.dropped),
            "groups/stale": float(self.stale),
            "groups/zero_variance_share": 1.0 - len(self.groups) / max(1, len(self.rewarded)),
            "episodes/failed": float(sum(not e.ending.counted and not e.unmarked for e in self.sampled)),
            "episodes/context_full": float(sum(episode.ending is Ending.CONTEXT_FULL for episode in whole)),
            "turns/cut_share": sum(e.cut_turns for e in whole) / max(1, sum(e.num_turns for e in whole)),
            "episodes/forks": float(sum(episode.num_forks for episode in whole)),
            "calls/left_out": float(sum(bool(call.left_out) for episode in whole for call in episode.calls)),
            "calls/late": float(sum(episode.late_calls for episode in whole)),
            "episodes/used": float(sum(len(group.episodes) for group in self.groups)),
            "judge/failures": float(self.unrewarded),
            "time/rollout": self.seconds,
        }
        tokens = sum(episode.num_sampled_tokens for episode in self.sampled) - self.found_tokens
        if tokens or not self.found_tokens:
            metrics["speed/sample_tokens_per_second"] = tokens / self.sampling_seconds
        if self.groups:
            metrics["reward/used_std"] = fmean([pstdev(group.rewards) for group in self.groups])
        if audited := sum(episode.audit is not None for episode in whole):
            metrics["answer/audited"] = float(audited)
        if (accuracy := self._agreement().accuracy) is not None:
            metrics["judge/disagreement"] = 1.0 - accuracy
        if self.judge_cost_usd is not None:
            metrics["judge/cost_usd"] = self.judge_cost_usd
        if self.answer_cost_usd is not None:
            metrics["answer/cost_usd"] = self.answer_cost_usd
        return metrics

    def remarks(self, rollout: RolloutSettings, earlier: Iterable[Mapping[str, float]] = ()) -> list[str]:
        """What a user should know of the step: what was cut, and why there is nothing to learn from it.

        Args:
            rollout: The run's settings, which the remarks name.
            earlier: Metrics of the steps before; cut turns are told of once, and again when their share has doubled.
        """
        found, told = context_full(self.sampled, rollout.max_tokens), list(earlier)
        turns, cut_turns = sum(e.num_turns for e in self.sampled), sum(e.cut_turns for e in self.sampled)
        if cut_turns > _told_share(step.get("turns/cut_share", 0.0) for step in told) * turns:
            found.append(
                f"{cut_turns} of {turns} turns were cut for their length (rollout.max_turn_tokens = "
                f"{rollout.max_turn_tokens}), and the env read what there was of them; raise it, or ask for short turns"
            )
        if not self.groups:
            small = sum(len(group.episodes) < 2 for group in self.rewarded)
            reasons = {
                "had equal rewards": len(self.rewarded) - small,
                "had less than two episodes that were played out": small,
                "had no verdict": self.unrewarded,
            }
            why = ", ".join(f"{count} {what}" for what, count in reasons.items() if count)
            groups = counted(self.dropped, "group")
            found.append(
                f"no update, for there is nothing to compare: of {groups}, {why}. What helps: more or "
                "larger groups (rollout.groups_per_step, rollout.group_size), drawing others (rollout.refill_rounds), "
                "a warm start (warm_start.steps; of your own agent with --warm-start-model, too), or a denser reward "
                "(the env's, or --reward)"
            )
        if not told and (lines := captured(self.sampled)):
            found.append("\n".join(lines))
        return found

    def _agreement(self) -> PairCounts:
        """How the judge's scores order what the env could verify; no pairs where no judge was asked."""
        counts = PairCounts()
        for group in self.rewarded:
            judged = [episode for episode in group.episodes if "ruler_score" in episode.metrics]
            counts += count_pairs([verifiable_class(e) for e in judged], [e.metrics["ruler_score"] for e in judged])
        return counts


def _told_share(shares: Iterable[float]) -> float:
    """The share of cut turns above which a step says so, after steps with these ``shares``."""
    bound = MANY_CUT_TURNS
    for share in shares:
        if share > bound:
            bound = 2 * share
    return bound
