"""Several orders and several judges: what a mean cancels, what it reports, and what fails it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import judges
from judges import JudgeClient, MalformedVerdict, Session
from judges.scoring.prompt import build_prompts
from tests.judges.recorded_groups import SYSTEM, USER, said
from tests.support.judge_server import JudgeServer, shown_trajectories, verdict

QUALITY = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
GROUP = [[SYSTEM, USER, said(name)] for name in QUALITY]


def favouring(bonus_by_place):
    """A judge that adds to the quality of what it reads a bonus for the place at which it was shown."""

    def answer(messages):
        shown = shown_trajectories(messages)
        return verdict(
            (label, QUALITY[trajectory[-1]["content"]] + bonus_by_place(place), f"at {place}")
            for place, (label, trajectory) in enumerate(shown.items())
        )

    return answer


def first_alone(place):
    return 0.5 if place == 0 else 0.0


async def judge(server, lists=GROUP, **options):
    return await judges.ruler(lists, api_base=server.url, timeout_seconds=20, backoff_seconds=0.01, **options)


def places(lists, permutations, seed=0):
    """Row per order: the place at which each trajectory is shown."""
    prompts = build_prompts(lists, permutations=permutations, seed=seed)
    return [[prompt.shown.index(label) for label in prompt.labels] for prompt in prompts]


async def test_as_many_orders_as_trajectories_cancel_a_bias_for_the_first_exactly():
    with JudgeServer(favouring(first_alone)) as server:
        scores = await judge(server, permutations=4)
        (once,) = [await judge(server)]
    assert len(server.requests) == 5
    # Each is first in one of four orders: 0.5 / 4 more for all, so every difference is the true one.
    assert [s.score for s in scores] == [pytest.approx(quality + 0.125) for quality in QUALITY.values()]
    assert [s.spread for s in scores] == [pytest.approx(0.5)] * 4
    # With a single order one of them, not the best, got the whole bonus.
    assert sorted(round(s.score - q, 9) for s, q in zip(once, QUALITY.values(), strict=True)) == [0.0, 0.0, 0.0, 0.5]
    assert [s.spread for s in once] == [0.0] * 4


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 7).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.floats(0, 1), min_size=n, max_size=n))),
    st.integers(1, 16),
    st.integers(0, 3),
)
def test_no_bias_by_place_exceeds_the_stated_bound(group, permutations, seed):
    size, bonus = group
    rows = places([[USER, said(str(n))] for n in range(size)], permutations, seed)
    assert all(sorted(row) == list(range(size)) for row in rows)
    means = [sum(bonus[row[member]] for row in rows) / permutations for member in range(size)]
    rest = permutations % size
    bound = (max(bonus) - min(bonus)) * min(rest, size - rest) / permutations
    assert max(means) - min(means) <= bound + 1e-9
    for place in range(size):
        times = [sum(row[member] == place for row in rows) for member in range(size)]
        assert max(times) - min(times) <= (1 if rest else 0)


def test_orders_differ_by_label_too_and_are_the_same_for_the_same_seed():
    first, second = build_prompts(GROUP, permutations=2, seed=5)
    assert set(first.labels) & set(second.labels) == set()
    assert (first.permutation, second.permutation) == (0, 1)
    assert [first, second] == build_prompts(GROUP, permutations=2, seed=5)
    assert [first, second] != build_prompts(GROUP, permutations=2, seed=6)
    assert first.shown != second.shown


@pytest.mark.parametrize("size", [1, 3])
async def test_a_single_trajectory_has_one_order(size):
    with JudgeServer(favouring(first_alone)) as server:
        scores = await judge(server, [GROUP[0]] * size, permutations=4)
    assert len(server.requests) == 1
    assert [(s.trajectory_id, s.score) for s in scores] == [(str(n + 1), 0.6) for n in range(size)]


async def test_equal_trajectories_share_mean_spread_and_explanation():
    with JudgeServer(favouring(first_alone)) as server:
        first, second, third = await judge(server, [GROUP[0], GROUP[1], GROUP[0]], permutations=2)
    assert (first.score, first.spread, first.explanation) == (third.score, third.spread, third.explanation)
    assert first.score == pytest.approx(0.1 + 0.25)
    assert second.score == pytest.approx(0.2 + 0.25)


async def test_several_judges_are_averaged_each_with_the_same_weight():
    with (
        JudgeServer(favouring(lambda place: 0.0)) as low,
        JudgeServer(favouring(lambda place: 0.4)) as high,
    ):
        scores = await judges.ruler(
            GROUP,
            judges=[JudgeClient("o4-mini", api_base=low.url), JudgeClient("local", api_base=high.url)],
            permutations=2,
        )
    assert (len(low.requests), len(high.requests)) == (2, 2)
    assert [s.score for s in scores] == [pytest.approx(quality + 0.2) for quality in QUALITY.values()]
    assert [s.spread for s in scores] == [pytest.approx(0.4)] * 4
    assert {request.body["model"] for request in low.requests + high.requests} == {"o4-mini", "local"}
    # both judges saw the same two prompts
    assert contents(low) == contents(high)


def contents(server):
    return sorted(request.body["messages"][1]["content"] for request in server.requests)


async def test_the_explanation_is_that_of_the_verdict_nearest_to_the_mean():
    scores = iter([0.0, 0.5, 0.7])

    def answer(messages):
        score = next(scores)
        return verdict((label, score, f"gave {score}") for label in shown_trajectories(messages))

    with JudgeServer(answer) as server:
        first, *_ = await judge(server, GROUP[:3], permutations=3, session=Session(max_concurrency=1))
    assert (first.score, first.spread, first.explanation) == (pytest.approx(0.4), pytest.approx(0.7), "gave 0.5")


async def test_one_verdict_that_fails_fails_the_group_and_trying_again_asks_for_that_one_alone(tmp_path):
    refused = []

    def answer(messages):
        if not refused or messages[1]["content"] in refused:
            refused.append(messages[1]["content"])
            if len(refused) <= 2:
                return "I would rather not."
        return favouring(lambda place: 0.0)(messages)

    session = Session(cache=tmp_path / "cache.db")
    with JudgeServer(answer) as server:
        with pytest.raises(MalformedVerdict, match="no usable answer on 4 trajectories"):
            await judge(server, permutations=4, session=session)
        assert len(server.requests) == 5  # four orders and one repair turn
        scores = await judge(server, permutations=4, session=session)
        assert len(server.requests) == 6
    assert [s.score for s in scores] == [pytest.approx(quality) for quality in QUALITY.values()]
    assert (session.usage.calls, session.usage.cached) == (6, 3)


async def test_debug_shows_every_order_the_mean_and_the_spread(tmp_path, capsys):
    session = Session(cache=tmp_path / "cache.db")
    with JudgeServer(favouring(first_alone)) as server:
        await judge(server, permutations=4, session=session)
        await judge(server, permutations=4, session=session, debug=True)
    err = capsys.readouterr().err
    assert err.count("--- system\n") == err.count("--- user\n") == err.count("--- openai/o4-mini\n") == 4
    for part in ("score=0.225", "spread=0.5"):
        assert part in err, part
