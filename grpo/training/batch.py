"""What a step trains on, how it came about, and what is logged of it."""

from collections import Counter
from dataclasses import dataclass
from statistics import fmean, pstdev

from grpo.display.capture import captured, context_full
from grpo.display.metrics import counted
from grpo.ending import Ending
from grpo.episodes.summary import failures, step_means
from grpo.learner.segments import Segment
from grpo.settings import RolloutSettings
from grpo.training.rewards import verifiable_class
from grpo.types import Episode, Group
from judges.reliability.agreement import PairCounts, count_pairs


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

        `grpo.display.meanings` says what each means.
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
        metrics |= self._idle()
        said = Counter(tuple(call.sampled_ids) for episode in whole for call in episode.calls if call.sampled_ids)
        if said and len(self.rewarded) > 1:
            metrics["actions/top_share"] = max(said.values()) / said.total()
        if (accuracy := self._agreement().accuracy) is not None:
            metrics["judge/disagreement"] = 1.0 - accuracy
        if self.judge_cost_usd is not None:
            metrics["judge/cost_usd"] = self.judge_cost_usd
        if self.answer_cost_usd is not None:
            metrics["answer/cost_usd"] = self.answer_cost_usd
        return metrics

    def remarks(self, rollout: RolloutSettings, *, is_first: bool = False) -> list[str]:
        """What a user should know of the step: what was cut, and why there is nothing to learn from it.

        Args:
            rollout: The run's settings, which the remarks name.
            is_first: Of the run: what an agent of the user's asked is drawn.
        """
        found = [*context_full(self.sampled, rollout.max_tokens), *failures(self.sampled)]
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
        if is_first and (lines := captured(self.sampled)):
            found.append("\n".join(lines))
        return found

    def _idle(self) -> dict[str, float]:
        """The share of episodes that give up, and what they earn above others of their group that fail.

        One gives up that says it does not know, or ends after one turn while others of its group play on. There is
        nothing to say where the env tells no success.
        """
        idle, differences = 0, list[float]()
        scored = [
            group for group in self.rewarded if group.episodes and all("success" in e.metrics for e in group.episodes)
        ]
        for group in scored:
            earned: dict[bool, list[float]] = {True: [], False: []}
            most = max((episode.num_turns for episode in group.episodes), default=0)
            for episode, reward in zip(group.episodes, group.rewards, strict=True):
                if not episode.metrics["success"]:
                    gives_up = episode.metrics.get("dont_know", 0.0) > 0 or episode.num_turns == 1 < most
                    earned[gives_up].append(reward)
            idle += len(earned[True])
            if all(earned.values()):
                differences.append(fmean(earned[True]) - fmean(earned[False]))
        share = {"episodes/idle_share": idle / sum(len(group.episodes) for group in scored)} if scored else {}
        return share | ({"reward/idle_advantage": fmean(differences)} if differences else {})

    def _agreement(self) -> PairCounts:
        """How the judge's scores order what the env could verify; no pairs where no judge was asked."""
        counts = PairCounts()
        for group in self.rewarded:
            judged = [episode for episode in group.episodes if "ruler_score" in episode.metrics]
            counts += count_pairs([verifiable_class(e) for e in judged], [e.metrics["ruler_score"] for e in judged])
        return counts
