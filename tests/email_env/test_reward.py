import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.errors import ConfigurationError
from email_env.reward import RewardConfig, Score, reward_config
from email_env.tools.toolbox import Answer, ToolResult
from judges.common.tool_calls import ErrorCode
from tests.email_env.office import BUDGET, MOVED, NOWHERE

FOUND = ToolResult("", searched=True, found=("m9", "m1", "m2"))
READ = ToolResult("", read=("m1",))
LOST = ToolResult("", unknown_id=True)


def fault(code: ErrorCode) -> ToolResult:
    return ToolResult("Error", error=code)


def said(text: str, *sources: str) -> ToolResult:
    return ToolResult("", answer=Answer(text, sources))


def worth(scenario, *results: ToolResult, max_turns: int = 10, config: RewardConfig | None = None) -> float:
    """Reward of an episode that has one call a turn."""
    score = Score(config or RewardConfig(), scenario, max_turns)
    claimed = []
    for result in results:
        score.turns += 1
        score.note(result)
        claimed.append(score.claim())
    score.finish()
    claimed.append(score.claim())
    metrics = score.metrics()
    assert sum(claimed) == pytest.approx(metrics["reward"], abs=1e-12)
    assert sum(value for name, value in metrics.items() if name.startswith("reward_")) == pytest.approx(
        metrics["reward"], abs=1e-12
    )
    return metrics["reward"]


@pytest.mark.parametrize(
    ("scenario", "results", "expected"),
    [
        # perfect: 1 right + 0.3 recall + 0.1 precision + 0.1 * (1 - 3/10) speed
        (BUDGET, (FOUND, READ, said("$48,250", "m1")), 1.47),
        # one of two named right, one of two evidence mails named: 1 + 0.15 + 0.05 + 0.09
        (MOVED, (said("Thursday", "m2", "m9"),), 1.29),
        # all evidence among four names: 1 + 0.3 + 0.1 * 2/4 + 0.09
        (MOVED, (said("Thursday", "m2", "m3", "m8", "m9"),), 1.44),
        # no sources: 1 + 0.09
        (MOVED, (said("Thursday"),), 1.09),
        # wrong: -1 + found 0.1 + read 0.1 + no unknown id 0.1 + sources 0.1
        (BUDGET, (FOUND, READ, said("$1", "m1")), -0.6),
        # undecided: as wrong
        (BUDGET, (FOUND, READ, said("about forty-eight thousand", "m1")), -0.6),
        # an unknown id loses its tenth; nothing found or read
        (BUDGET, (LOST, said("$1")), -1.0),
        # half of the evidence found: -1 + 0.05 + 0.1
        (MOVED, (FOUND, said("Friday")), -0.85),
        # not knowing and running out of turns: their partial credit
        (BUDGET, (FOUND, said("I don't know")), 0.2),
        (BUDGET, (FOUND, READ), 0.3),
        # not knowing where the mailbox does not say: 1 + 0.4 for no sources after a search + 0.1 * (1 - 2/10)
        (NOWHERE, (FOUND, said("I don't know")), 1.48),
        # without a search the sources earn nothing: 1 + 0.09
        (NOWHERE, (said("I don't know"),), 1.09),
        # with a source neither: 1 + 0.08
        (NOWHERE, (FOUND, said("I don't know", "m1")), 1.08),
        # a made-up answer: -1 + 0.1
        (NOWHERE, (FOUND, said("Ben")), -0.9),
    ],
)
def test_an_episode_is_worth_what_it_found_named_and_said(scenario, results, expected):
    assert worth(scenario, *results) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("codes", "tier"),
    [
        (("bad_json",), -2.0),
        (("no_tool_call", "bad_json"), -2.0),
        (("bad_json", "unknown_tool"), -1.9),
        (("bad_args", "unknown_tool"), -1.8),
    ],
)
def test_an_episode_without_a_valid_call_is_in_the_tier_of_its_best_try(codes, tier):
    # no unknown id + 0.1; each invalid call - 0.1
    expected = tier + 0.1 - 0.1 * len(codes)
    assert worth(BUDGET, *(fault(ErrorCode(code)) for code in codes)) == pytest.approx(expected)


def test_at_most_five_invalid_calls_cost_and_each_when_it_happens():
    score = Score(RewardConfig(), BUDGET, 10)
    claimed = []
    for _ in range(7):
        score.note(fault(ErrorCode.BAD_ARGS))
        claimed.append(score.claim())
    assert claimed == pytest.approx([-0.1] * 5 + [0.0] * 2)
    assert score.metrics()["invalid_calls"] == 7.0


def test_constants_can_be_changed():
    config = reward_config({"right_answer": 5, "speed": 0.0, "right_sources": 0, "exact_sources": 0})
    assert worth(BUDGET, said("$48,250", "m1"), config=config) == pytest.approx(5.0)
    assert reward_config(None) == reward_config({}) == RewardConfig()
    assert reward_config(config) == config


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"right_answr": 1.0}, "Did you mean 'right_answer'?"),
        ({"speed": "fast"}, "speed='fast'"),
        ({"speed": float("nan")}, "speed=nan"),
        ({"max_penalized_calls": 1.5}, "max_penalized_calls=1.5"),
        ({"invalid_call_penalty": -0.1}, "must not be negative"),
        (RewardConfig(speed=float("inf")), "speed=inf"),
        ([1], "must be a mapping"),
    ],
)
def test_a_wrong_constant_is_refused_with_the_reason(value, hint):
    with pytest.raises(ConfigurationError, match=r"constant|mapping|negative") as error:
        reward_config(value)
    assert hint in str(error.value)


CALLS = st.lists(
    st.sampled_from([FOUND, READ, LOST, *(fault(code) for code in ErrorCode if code)]), min_size=0, max_size=9
)


@given(*[CALLS] * 3, st.sampled_from([(), ("m1",), ("m1", "m9"), ("m9",)]))
def test_no_credit_and_no_penalty_lifts_an_episode_out_of_its_tier(wrong, unknown, right, sources):
    nothing = worth(BUDGET, fault(ErrorCode.BAD_ARGS))
    wrong_worth = worth(BUDGET, *wrong, said("$1", *sources))
    unknown_worth = worth(BUDGET, *unknown, said("I don't know", *sources))
    right_worth = worth(BUDGET, *right, said("$48,250", *sources))
    assert -2.4 - 1e-9 <= worth(BUDGET, *[fault(ErrorCode.BAD_JSON)] * 9) <= nothing
    assert nothing < wrong_worth < unknown_worth < right_worth


def test_metrics_are_floats_under_the_same_names_at_every_stage():
    score = Score(RewardConfig(), MOVED, 10)
    before = score.metrics()
    score.note(FOUND)
    score.note(said("Thursday", "m2"))
    score.finish()
    score.claim()
    after = score.metrics()
    assert list(before) == list(after)
    assert all(type(value) is float for value in [*before.values(), *after.values()])
    assert (after["found"], after["read"], after["source_recall"], after["source_precision"]) == (0.5, 0.0, 0.5, 1.0)
    assert (after["difficulty_hard"], after["difficulty_easy"], after["answerable"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("scenario", "text", "undecided"),
    [
        (BUDGET, "about forty-eight thousand", 1.0),
        (BUDGET, "$1", 0.0),
        (BUDGET, "I don't know", 0.0),
        (NOWHERE, "Ben", 0.0),
    ],
)
def test_an_answer_that_the_rule_cannot_decide_is_said_to_be_undecided(scenario, text, undecided):
    score = Score(RewardConfig(), scenario, 10)
    assert score.metrics()["undecided"] == 0.0
    score.note(said(text))
    assert score.metrics()["undecided"] == undecided


def judged(right: bool, scenario, *results: ToolResult) -> tuple[float, dict[str, float]]:
    score = Score(RewardConfig(), scenario, 10)
    for result in results:
        score.turns += 1
        score.note(result)
        score.claim()
    score.finish()
    score.claim()
    before = score.metrics()
    marked = score.judged(right)
    assert score.metrics() == before, "the account itself stays as it is"
    return marked.reward, marked.metrics()


def test_a_judges_verdict_moves_an_answer_to_its_tier_with_the_credits_of_that_tier():
    other_words = said("about forty-eight thousand", "m1")
    # right: 1 + 0.3 + 0.1 + 0.1 * (1 - 4/10), less a penalty of 0.1; no partial credit
    reward, metrics = judged(True, BUDGET, fault(ErrorCode.BAD_ARGS), FOUND, READ, other_words)
    assert reward == metrics["reward"] == pytest.approx(1.36)
    assert (metrics["success"], metrics["undecided"], metrics["reward_partial"]) == (1.0, 0.0, 0.0)
    # wrong: -1 + 4 * 0.1 - 0.1, as an undecided one; but it is decided now
    reward, metrics = judged(False, BUDGET, fault(ErrorCode.BAD_ARGS), FOUND, READ, other_words)
    assert reward == pytest.approx(-0.7)
    assert (metrics["success"], metrics["undecided"]) == (0.0, 0.0)
    # what the rule took for right may be marked wrong, too
    assert judged(False, BUDGET, said("$48,250", "m1"))[0] == pytest.approx(-0.8)
