"""The page of a run that has more episodes than a page: which are on it, what is said of the others, the memory."""

import re
from pathlib import Path

import pytest

from grpo.report import write_report
from grpo.types import Episode, ModelCall, Task
from tests.support.machine import traced_peak
from tests.support.reports import make_episode, save


def test_transcripts_that_find_no_room_are_counted_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo.report.episodes.MAX_TEXT_CHARS", 300)
    records = [make_episode(n, 1.0, solved=True) for n in range(3)]
    save(tmp_path / "trajectories/step-0001.jsonl", records)
    html = write_report(tmp_path).read_text()
    assert "2 episodes are listed without their transcripts" in html
    assert html.count('"left_out":true') == 2


def test_a_page_takes_steps_and_evaluations_between_them_in_their_order_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [make_episode(n, 1.0, solved=True) for n in range(3)]
    paths = [f"{folder}/step-{step:04d}{how}.jsonl" for step in (1, 2, 3, 4)
             for folder, how in (("trajectories", ""), ("eval", "-sampled"))]  # fmt: skip
    for path in ("eval/before-sampled.jsonl", "eval/after-sampled.jsonl", *paths):
        save(tmp_path / path, records)

    def labels(limit: int) -> list[str]:
        monkeypatch.setattr("grpo.report.training.MAX_EPISODES", limit)
        return re.findall(r'"label":"([^"]+)"', write_report(tmp_path).read_text())

    final = ["before, T = 1", "after, T = 1"]
    others = [label for step in (1, 2, 3, 4) for label in (f"step {step}", f"step-000{step}-sampled")]
    assert labels(30) == [*final, *others]
    assert labels(6 + 18) == [*final, *(others[place] for place in (0, 1, 3, 4, 6, 7))]
    html = (tmp_path / "report.html").read_text()
    assert (
        "The episodes of 2 of 8 steps and evaluations between them are not on this page, which holds up to 24; they "
        "lie in trajectories/ and eval/."
    ) in html


def test_a_page_needs_no_memory_for_the_episodes_that_it_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo.report.training.MAX_EPISODES", 20)

    def peak(steps: int) -> int:
        for step in range(1, steps + 1):
            for path in (f"trajectories/step-{step:04d}.jsonl", f"eval/step-{step:04d}-sampled.jsonl"):
                records = [Episode("E", Task(n), calls=[ModelCall(sampled=["x" * 100_000, -1.0])]) for n in range(4)]
                save(tmp_path / path, records)
        write_report(tmp_path)  # what is loaded once is loaded
        return traced_peak(lambda: write_report(tmp_path))

    short = peak(20)
    assert peak(80) < short + 2_000_000, "sixty steps more have 48 MB"


def test_a_page_is_written_in_pieces(tmp_path: Path) -> None:
    for step in range(1, 6):
        texts = [chr(0x1F600) + f"{step} {n} " + "<" * 5900 for n in range(100)]  # six letters each on the page
        messages = [[{"role": "assistant", "content": text}] for text in texts]
        save(
            tmp_path / f"trajectories/step-{step:04d}.jsonl",
            [Episode("E", Task(0, "s"), n, messages=said) for n, said in enumerate(messages)],
        )
    page = write_report(tmp_path)
    assert page.stat().st_size > 17_000_000
    assert traced_peak(lambda: write_report(tmp_path)) < 17_000_000, "the texts alone: four bytes a letter"
    assert "".join(sorted(path.name for path in tmp_path.iterdir())) == "report.htmltrajectories"
