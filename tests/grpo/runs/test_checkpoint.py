"""Checkpoints are made whole beside what comes next: never seen half, never changed by it, and never lost in silence."""

import errno
import threading

import pytest

from grpo.runs.checkpoint import Checkpoints, TrainState, newest_checkpoint
from judges.common.files import DamagedFileError

END_SECONDS = 120.0


class FileEngine:
    """Has its policy and its state as text; stands for an engine where only files matter."""

    def __init__(self, value="w"):
        self.value = value

    def save_adapter(self, folder):
        (folder / "adapter_model.safetensors").write_text(self.value)

    def state(self):
        return {"engine.pt": self.value.encode()}


@pytest.fixture
def made(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    yield checkpoints
    checkpoints._thread.shutdown()


def step_of(folder):
    found = newest_checkpoint(folder)
    return None if found is None else found[1].step


def test_a_checkpoint_counts_once_it_is_whole_and_old_ones_are_dropped_after_that(made, tmp_path):
    for step in range(4):
        begun = made.begin(FileEngine(f"w{step}"), TrainState(step, step * 6))
        assert step_of(tmp_path) == (step - 1 if step else None)
        assert (begun.folder / "adapter_model.safetensors").read_text() == f"w{step}", "there to be published"
        made.finish(begun)
    made.close()
    (tmp_path / "step-0009").mkdir()  # no state, so not a checkpoint
    (tmp_path / "step-0009" / "engine.pt").write_text("half")
    folder, state = newest_checkpoint(tmp_path)
    assert (folder.name, state) == ("step-0003", TrainState(3, 18))
    assert {path.name: path.read_text() for path in folder.iterdir() if path.name != "state.json"} == {
        "engine.pt": "w3",
        "adapter_model.safetensors": "w3",
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-0000", "step-0002", "step-0003", "step-0009"]


def test_the_run_goes_on_while_a_checkpoint_is_written_and_the_next_one_waits(made, tmp_path):
    go_on, engine = threading.Event(), FileEngine("before")

    def slow(folder):
        (folder / "README.md").write_text("card")
        assert go_on.wait(END_SECONDS)

    made.finish(made.begin(FileEngine(), TrainState(0, 0)))
    made.finish(made.begin(engine, TrainState(1, 6)), slow)
    engine.value = "after"  # the next update
    assert step_of(tmp_path) == 0
    next_one = threading.Thread(target=lambda: made.finish(made.begin(engine, TrainState(2, 12))))
    next_one.start()
    assert step_of(tmp_path) == 0, "the first checkpoint is kept until the second is whole"
    go_on.set()
    next_one.join(END_SECONDS)
    made.wait()
    assert (tmp_path / "step-0001" / "engine.pt").read_text() == "before"
    assert (tmp_path / "step-0001" / "README.md").read_text() == "card"
    assert (tmp_path / "step-0002" / "engine.pt").read_text() == "after"


def test_what_goes_wrong_in_the_thread_is_raised_where_it_is_waited_for_and_hides_no_error_that_ends_the_run(
    made, tmp_path
):
    def full(_folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    made.finish(made.begin(FileEngine("w1"), TrainState(1, 6)))
    made.finish(made.begin(FileEngine("w2"), TrainState(2, 12)), full)
    for call in (made.wait, lambda: made.begin(FileEngine("w3"), TrainState(3, 18))):
        with pytest.raises(OSError, match="No space left on device") as error:
            call()
        assert error.value.errno == errno.ENOSPC
    made.close()
    assert step_of(tmp_path) == 1
    again = Checkpoints(tmp_path, keep=2)
    again.finish(again.begin(FileEngine("w2 again"), TrainState(2, 12)))
    again.close()
    assert (tmp_path / "step-0002" / "engine.pt").read_text() == "w2 again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0001", "step-0002"], "no half of one is left"


def test_a_damaged_checkpoint_is_named(made, tmp_path):
    made.finish(made.begin(FileEngine(), TrainState(1, 2)))
    made.wait()
    (tmp_path / "step-0001" / "state.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"state\.json is not JSON"):
        newest_checkpoint(tmp_path)
