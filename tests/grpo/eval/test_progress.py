"""The line that tells how far an evaluation is, on a terminal and in a log."""

from typing import Any

import pytest

from grpo.ending import Ending
from grpo.eval.output import EvaluationProgress
from grpo.types import Episode, ModelCall, Task
from tests.support.display import make_display


def result(ending: str = "answered", correct: bool | None = True, reward: float = 0.5, **call: Any) -> Episode:
    metrics = {} if correct is None else {"success": float(correct)}
    calls = [ModelCall("m", **call)]
    return Episode("E", Task(0), metrics=metrics, reward=reward, ending=Ending(ending), calls=calls)


def test_the_line_says_how_many_how_good_what_failed_what_it_cost_and_how_long() -> None:
    """By hand: 2 of 3 right; 3 new ones in 6 s are 0.5/s, so the last 5 of 10 take 10 s."""
    display, _, clock = make_display()
    progress = display.progress("episodes", 10, EvaluationProgress)
    assert progress.status() == "0/10  no score yet  errors 0"
    progress.add(result(), earlier=True)
    progress.add(result("infrastructure", None))
    clock.now += 6
    progress.add(result(prompt_tokens=1200, completion_tokens=34, cost=0.25))
    progress.add(result("agent_crash", correct=False), earlier=True)
    progress.add(result("no_answer", None))
    assert progress.status() == "5/10  correct 66.7 %  errors 2  tokens 1,234  $0.2500  0.5/s  10 s left"


def test_an_env_that_does_not_say_what_is_right_has_its_mean_reward_shown() -> None:
    display, _, clock = make_display()
    progress = display.progress("episodes", 2, EvaluationProgress)
    clock.now += 1
    progress.add(result(correct=None))
    progress.add(result(correct=None, reward=0.0))
    assert progress.status() == "2/2  reward 0.250  errors 0  2/s"


@pytest.mark.parametrize("width", [60, 120])
def test_a_narrow_terminal_shows_all_of_it_on_two_lines(width: int) -> None:
    display, out, clock = make_display(width, live=True)
    with display, display.progress("episodes", 4, EvaluationProgress) as progress:
        clock.now += 5
        progress.add(result(prompt_tokens=81204))
    last = " ".join(out.getvalue().split("\x1b[2K")[-1].split())
    said = "1/4 correct 100.0 % errors 0 tokens 81,204 0.2/s 15 s left"
    assert ("━" in last) == (width == 120)
    assert said in last
