"""What a run prints: on a terminal, in a pipe, and in quiet mode."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grpo.display.terminal import Display
from tests.support.display import make_display

STEP = {
    "step": 3, "reward/mean": 0.412, "env/success": 0.31, "env/valid_call_rate": 0.96, "tokens/completion_mean": 142.0,
    "gap/mean_abs": 0.0021, "speed/sample_tokens_per_second": 330.0, "speed/train_tokens_per_second": 700.0, "time/step": 41.0,
}  # fmt: skip


def summary(label: str, reward: float, success: float, temperature: float) -> dict[str, Any]:
    metrics = {
        "reward/mean": {"mean": reward, "low": reward - 0.1, "high": reward + 0.1},
        "env/success": {"mean": success, "low": success - 0.05, "high": success + 0.05},
        "turns/mean": {"mean": 3.2, "low": None, "high": None},
    }
    return {"label": label, "split": "test", "temperature": temperature, "episodes": 64, "metrics": metrics}


SUMMARIES = [
    summary("before-sampled", 0.25, 0.281, 1.0),
    summary("before-greedy", 0.41, 0.484, 0.0),
    summary("after-sampled", 0.488, 0.547, 1.0),
    summary("after-greedy", 0.545, 0.594, 0.0),
]


def test_a_bar_shows_count_running_averages_speed_and_time_left() -> None:
    """By hand: 5 of 8 in 31 s are 0.161/s, so 18.6 s are left; rewards 0.5, 1 and 3 x 0 average 0.3."""
    display, _, clock = make_display()
    bar = display.progress("rollout", 8)
    assert bar.status() == "0/8"
    bar.update(1, reward=0.5, tokens=100)
    bar.update(1, reward=1.0, tokens=200)
    bar.update(3, reward=0.0, tokens=140)
    clock.now += 31
    assert bar.status() == "5/8  reward 0.300  tokens 144  0.161/s  19 s left"
    bar.close()
    clock.now += 3600
    assert bar.status() == "5/8  reward 0.300  tokens 144  0.161/s  19 s left"


def test_bars_in_a_pipe_write_at_most_one_line_in_ten_seconds() -> None:
    display, out, clock = make_display()
    for _ in range(3):
        with display.progress("rollout", 100) as bar:
            for _ in range(100):
                clock.now += 0.1
                bar.update(1, reward=1.0)
    lines = out.getvalue().splitlines()
    assert 2 <= len(lines) <= 3
    assert all(line.startswith("rollout ") and "reward 1.00" in line for line in lines)


def test_bars_that_have_a_line_are_shown_to_their_ends_and_a_quick_one_not_at_all() -> None:
    display, out, clock = make_display()
    with display.progress("sampled", 2) as sampled, display.progress("greedy", 2) as greedy:
        for bar in (sampled, greedy, greedy, sampled):
            clock.now += 6
            bar.update(1)
    with display.progress("quick", 1) as quick:
        clock.now += 1
        quick.update(1)
    assert out.getvalue().splitlines() == [
        "greedy 1/2  0.0833/s  12 s left",
        "sampled 2/2  0.0833/s",
        "greedy 2/2  0.0833/s",
    ]


def test_a_step_in_a_pipe_is_one_line_with_averages_and_time_left() -> None:
    """By hand: steps of 41 s; 7 of 10 are left after the third, so 287 s."""
    display, out, _ = make_display()
    display.phase("GRPO")
    display.step(STEP | {"step": 2, "reward/mean": 0.212}, 10)
    display.step(STEP, 10)
    assert out.getvalue().splitlines()[-1] == (
        "step 3/10: reward=0.412, success=0.310, valid=0.960, tokens=142, gap=0.00210, sample tok/s=330, "
        "train tok/s=700, s=41.0; mean reward 0.312; mean tokens 142; 3 of 10 steps, 41 s each, about 4 min 47 s left"
    )


def test_a_number_of_steps_that_may_change_and_a_better_known_time_left_are_shown() -> None:
    display, out, _ = make_display()
    display.step(STEP, 7, left_seconds=200.0, about=True)
    display.step(STEP, 7, left_seconds=float("nan"), about=True)
    first, second = out.getvalue().splitlines()
    assert first.endswith("; 3 of about 7 steps, 41 s each, about 3 min 20 s left")
    assert second.endswith("; 3 of about 7 steps, 41 s each, about 2 min 44 s left"), "by hand: four steps of 41 s"


def test_a_step_may_lack_metrics_and_hold_nulls() -> None:
    display, out, _ = make_display()
    display.step({"step": 1, "reward/mean": None})
    assert out.getvalue() == "step 1: reward=–\n"


def test_plain_output_has_no_control_codes_even_where_the_text_has() -> None:
    display, out, _ = make_display()
    display.phase("a\x1b[31mphase")
    display.note("mail says \x1b]0;owned\x07 [bold]hi[/bold]\x9b2J")
    display.table("t", ["a", "b"], [["x\x1b[2J", "1"]])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out.getvalue())
    assert "[bold]hi[/bold]" in out.getvalue()


def test_the_closing_table_puts_sampled_and_greedy_side_by_side_with_intervals() -> None:
    display, out, _ = make_display(quiet=True)
    display.eval_table(SUMMARIES)
    assert out.getvalue().splitlines() == [
        "-- Evaluation on the test split, mean ± half of the 95 % interval",
        "             before, T=1      after, T=1   before, greedy   after, greedy",
        "Episodes              64              64               64              64",
        "Reward     0.250 ± 0.100   0.488 ± 0.100    0.410 ± 0.100   0.545 ± 0.100",
        "Success     28.1 % ± 5.0    54.7 % ± 5.0     48.4 % ± 5.0    59.4 % ± 5.0",
        "Turns               3.20            3.20             3.20            3.20",
    ]


def test_four_evaluations_side_by_side_fit_a_terminal_of_80_columns() -> None:
    display, out, _ = make_display(80, live=True)
    share = {"env/valid_call_rate": {"mean": 1.0, "low": 0.9, "high": 1.0}}
    display.eval_table([made | {"metrics": made["metrics"] | share} for made in SUMMARIES])
    rows = [" ".join(line.split()) for line in out.getvalue().splitlines()[-4:]]
    assert rows[0] == "Reward 0.250 ± 0.100 0.488 ± 0.100 0.410 ± 0.100 0.545 ± 0.100"
    assert [row.split()[0] for row in rows] == ["Reward", "Success", "Valid", "Turns"]


def test_quiet_shows_nothing_but_tables() -> None:
    display, out, clock = make_display(quiet=True)
    display.phase("phase")
    display.note("note")
    with display.progress("bar", 2) as bar:
        clock.now += 60
        bar.update(1)
    display.step(STEP)
    assert out.getvalue() == ""
    display.table("t", ["a"], [["x"]])
    assert out.getvalue() == "-- t\na\nx\n"


def test_an_output_that_cannot_encode_a_sign_does_not_stop_the_run() -> None:
    raw = io.BytesIO()
    display = Display(console=Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True)))
    display.eval_table(SUMMARIES)
    assert b"0.250 ? 0.100" in raw.getvalue()


def test_a_live_display_draws_the_last_steps_and_the_bars() -> None:
    display, out, clock = make_display(live=True)
    display.phase("GRPO")
    for step in range(1, 10):
        with display.progress(f"step {step} rollout", 4) as bar:
            clock.now += 2
            bar.update(4, reward=0.5, tokens=100)
        display.step(STEP | {"step": step}, 10)
    last_bar = display.progress("step 10 rollout", 4)
    clock.now += 2
    last_bar.update(1, reward=0.25)
    display._redraw()
    display.close()
    last = out.getvalue().split("sample tok/s")[-1]
    assert re.findall(r"^\s*(\d)\s+0\.412", last, re.MULTILINE) == [*"23456789"]
    assert "9 of 10 steps, 41 s each" in last
    assert "step 10 rollout" in last
    assert "1/4  reward 0.250  0.5/s  6.0 s left" in last
    assert "step 9 rollout" not in last  # its numbers are in the row


@pytest.mark.parametrize(
    ("width", "metrics", "shown"),
    [
        (140, {}, "step reward success valid tokens no spread clipped gap stale sample tok/s train tok/s judge $ s"),
        (100, {}, "step reward success tokens no spread gap sample tok/s train tok/s judge $ s"),
        (60, {}, "step reward success tokens sample tok/s s"),
        (140, {"step": 1, "reward/mean": 0.5, "time/step": 1.0}, "step reward s"),
    ],
)
def test_the_table_goes_without_what_a_run_lacks_and_on_a_narrow_terminal_without_less_telling_columns(
    width: int, metrics: dict[str, float], shown: str
) -> None:
    display, out, _ = make_display(width, live=True)
    extra = {"groups/zero_variance_share": 0.25, "loss/clip_share": 0.1, "staleness": 0.0, "judge/cost_usd": 0.02}
    display.step(metrics or STEP | extra, 10)
    display.close()
    header = next(line for line in out.getvalue().splitlines() if "reward" in line)
    assert re.sub(r"\x1b\[\S*", "", header).split() == shown.split()
    assert "…" not in header


@pytest.mark.parametrize(("width", "is_drawn"), [(80, False), (120, True)])
def test_a_bars_running_averages_fit_a_narrow_terminal(width: int, is_drawn: bool) -> None:
    display, out, clock = make_display(width, live=True)
    with display.progress("rollout 9:", 48) as bar:
        clock.now += 1200
        bar.update(20, reward=0.4, tokens=140)
    display.close()
    line = [line for line in out.getvalue().splitlines() if "rollout 9:" in line][-1].rstrip()
    assert line.endswith("20/48  reward 0.400  tokens 140  0.0167/s  28 min 00 s left")
    assert ("━" in line) == is_drawn


def on_a_terminal(*arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """Python with these arguments on a terminal of its own, and where that is read."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        env=environment,
    )
    os.close(follower)
    return process, leader


def read_to_end(terminal: int) -> bytes:
    seen = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the last process closed its end
            chunk = b""
        if not chunk:
            os.close(terminal)
            return seen
        seen += chunk


def test_a_real_terminal_gets_its_cursor_back_after_an_interrupt() -> None:
    code = (
        "from grpo.display.terminal import Display\n"
        "d = Display(); d.phase('GRPO'); b = d.progress('rollout', 4); b.update(1, reward=1.0); d.note('a note')\n"
        "raise KeyboardInterrupt"
    )
    process, leader = on_a_terminal("-c", code)
    text = read_to_end(leader).decode()
    process.wait(timeout=120)
    assert "rollout" in text
    assert "1/4  reward 1.00" in text
    assert "a note" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_after_a_ctrl_c_nothing_is_drawn_below_the_message(tmp_path: Path) -> None:
    arguments = ["eval", "--env", "EmailSearch-v0", "--agent", "oracle", "--limit", "120", "-k", "500"]
    process, leader = on_a_terminal("-m", "grpo", *arguments, "--out", str(tmp_path / "evaluation"))
    seen = b""
    while b"/60000  correct" not in seen:
        seen += os.read(leader, 65536)
    process.send_signal(signal.SIGINT)
    seen += read_to_end(leader)
    assert process.wait(timeout=120) == 130
    shown, _, below = seen.decode().partition("Stopped.")
    assert shown.count("/60000  correct") >= 1
    assert below.strip() == "Finished episodes are kept; the same command with --resume plays what is missing."
