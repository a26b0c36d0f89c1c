"""JSON on disk: whole or not at all, whatever a value holds and wherever a writer is killed."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.common.files import (
    MAX_DEPTH,
    JsonlLog,
    each_record,
    json_bytes,
    link_files,
    locked,
    read_jsonl,
    record_at,
    replacing,
    scratch_folder,
    write_json,
)
from tests.support.machine import traced_peak


def test_records_come_back_as_written_and_are_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"
    with JsonlLog(path) as log:
        log.append({"step": 1, "reward/mean": 0.5, "note": "ü\n\ud800"})
        assert read_jsonl(path) == [{"step": 1, "reward/mean": 0.5, "note": "ü\n\ud800"}]
        log.append({"loss": math.nan, "nested": {"ratios": [1.0, math.inf]}})
    assert path.read_bytes().splitlines()[1:] == [b'{"loss":null,"nested":{"ratios":[1.0,null]}}']
    assert read_jsonl(tmp_path / "missing.jsonl") == []


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("\ud800 ü", "\ud800 ü"),
        (2**80, 2**80),
        ({7: {None: 1.5}}, {"7": {"null": 1.5}}),
        ([math.nan, "\ud800", (math.inf, 1)], [None, "\ud800", [None, 1]]),
    ],
)
def test_values_that_the_quick_encoder_refuses_are_written_all_the_same(value: Any, read: Any) -> None:
    with pytest.raises(TypeError):
        orjson.dumps(value)
    assert json.loads(json_bytes({"value": value})) == {"value": read}
    with pytest.raises(TypeError, match="not JSON serializable"):
        json_bytes({"value": value, "other": object()})
    assert json.loads(json_bytes({"value": value, "other": object()}, lambda _: "x")) == {"value": read, "other": "x"}


def test_a_number_of_numpy_is_a_number() -> None:
    assert json_bytes({"loss": np.float64(0.25)}) == b'{"loss": 0.25}'


def test_what_is_nested_without_end_is_cut() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    value, depth = json.loads(json_bytes(endless)), 0
    while value is not None:
        assert value[0] == 1
        value, depth = value[1], depth + 1
    assert depth == MAX_DEPTH


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_whatever_json_can_hold_comes_back(value: Any) -> None:
    line = json_bytes(value)
    assert json.loads(line) == value
    assert b"\n" not in line


@pytest.mark.parametrize(
    ("last", "kept"), [(b'{"step": 2, "rew', b""), (b'{"step": 2}', b'{"step": 2}\n')], ids=["half", "whole"]
)
def test_a_last_line_without_its_newline_is_dropped_if_half_written_and_the_log_goes_on(
    last: bytes, kept: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"step": 1}\n' + last)
    assert read_jsonl(path) == [{"step": 1}, {"step": 2}][: 2 if kept else 1]
    with JsonlLog(path) as log:
        log.append({"step": 3})
    assert path.read_bytes() == b'{"step": 1}\n' + kept + b'{"step":3}\n'


@pytest.mark.parametrize("length", [1, 65_534, 65_535, 65_536, 131_072, 300_000])
@pytest.mark.parametrize("before", [b"", b'{"step": 1}\n'])
def test_a_last_line_of_any_length_is_mended(before: bytes, length: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(before + b"{" + b"x" * (length - 1))
    JsonlLog(path).close()
    assert path.read_bytes() == before
    path.write_bytes(before + b'{"a": "' + b"x" * length + b'"}')
    JsonlLog(path).close()
    assert path.read_bytes() == before + b'{"a": "' + b"x" * length + b'"}\n'


def test_opening_a_long_log_reads_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"a": "' + b"x" * 20_000_000 + b'"}\n{"step": 1}\n{"st')
    with JsonlLog(path) as log:
        log.append({"step": 2})
        log.close()
        assert traced_peak(lambda: JsonlLog(path).close()) < 1_000_000
    with path.open("rb") as file:
        file.seek(20_000_000)
        assert file.read().endswith(b'xx"}\n{"step": 1}\n{"step":2}\n')


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match="line 2 is not JSON"):
        read_jsonl(path)
    path.write_bytes(b"[1]\n")
    with pytest.raises(ValueError, match="line 1 is not a JSON object"):
        read_jsonl(path)


def test_a_resumed_run_drops_the_steps_after_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with JsonlLog(path) as log:
        for step in range(1, 6):
            log.append({"step": step, "old": True})
        log.append({"note": "no step"})
        log.truncate_after(3)
        log.truncate_after(3)
        log.append({"step": 4})
    assert [record.get("step") for record in read_jsonl(path)] == [1, 2, 3, None, 4]
    assert os.listdir(tmp_path) == ["log"]


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=2), max_size=3), st.data())
def test_any_cut_of_a_log_reads_as_a_prefix_of_its_records(
    records: list[dict[str, object]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with JsonlLog(path) as log:
            for record in records:
                log.append(record)
        whole = path.read_bytes()
        assert read_jsonl(path) == records
        assert [record_at(path, place) for place, _ in each_record(path)] == records
        cut = whole[: data.draw(st.integers(0, len(whole)))]
        path.write_bytes(cut)
        read = read_jsonl(path)
        assert read == records[: len(read)]
        assert len(read) - cut.count(b"\n") in (0, 1)


def test_a_killed_writer_leaves_a_readable_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from judges.common.files import JsonlLog\n"
        "log = JsonlLog(Path(sys.argv[1])); step = 0\n"
        "while True:\n    step += 1; log.append({'step': step, 'text': 'x' * 5000}); print(step, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        for line in process.stdout:
            if int(line) == 200:
                process.send_signal(signal.SIGKILL)
                break
        process.wait()
    steps = [record["step"] for record in read_jsonl(path)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 200


def test_linked_files_are_the_same_ones_or_equal_where_they_cannot_be_linked(tmp_path: Path) -> None:
    source, here = tmp_path / "source", tmp_path / "here"
    source.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors", "tinker.json"):
        (source / name).write_text(name)
    link_files(source, here)
    assert all(path.samefile(source / path.name) for path in here.iterdir())
    shutil.rmtree(source)
    assert sorted(path.read_text() for path in here.iterdir()) == sorted(path.name for path in here.iterdir())
    elsewhere = Path("/dev/shm")  # another file system
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=elsewhere) as folder:
        link_files(here, Path(folder) / "copies")
        copies = sorted((Path(folder) / "copies").iterdir())
        assert [path.read_text() for path in copies] == [path.name for path in copies]
        assert [path.name for path in copies] == ["adapter_config.json", "adapter_model.safetensors", "tinker.json"]


def test_what_is_written_is_its_owner_s_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {})
    JsonlLog(tmp_path / "b.jsonl").close()
    locked(tmp_path / "c").close()
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o600] * 3


def test_what_was_written_takes_the_place_of_the_old_file(tmp_path):
    path = tmp_path / "new" / "file"
    for text in ("one", "two"):
        with replacing(path) as temporary:
            temporary.write_text(text)
        assert path.read_text() == text
    assert os.listdir(path.parent) == ["file"]


def write_half(path, failure):
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise failure


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_the_old_file(tmp_path, failure):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(failure):
        write_half(path, failure)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "old")]


def test_two_writers_at_once_do_not_touch_each_others_files(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as one:
        one.write_text("one")
        with replacing(path) as two:
            two.write_text("two")
        assert path.read_text() == "two"
        assert one.read_text() == "one"
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "[a] file"
    code = (
        "import os, sys; from pathlib import Path; from judges.common.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as half:\n    half.write_text('half'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    write_json(path, "whole")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("[a] file", '"whole"\n')]


def test_a_lock_is_one_process_s_and_ends_with_the_file(tmp_path):
    with locked(tmp_path / "new" / "lock") as held, pytest.raises(BlockingIOError):
        locked(tmp_path / "new" / "lock", wait=False)
    assert held.closed
    locked(tmp_path / "new" / "lock", wait=False).close()


def test_a_folder_that_can_be_written_but_not_read_has_the_new_file_without_an_error():
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o333)
        if is_root:  # who may read everything
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                os.listdir(folder)
            with replacing(Path(folder, "mail.db")) as temporary:
                temporary.write_bytes(b"new")
        finally:
            if is_root:
                os.seteuid(0)
            os.chmod(folder, 0o700)
        assert {name: Path(folder, name).read_bytes() for name in os.listdir(folder)} == {"mail.db": b"new"}


def test_a_scratch_folder_goes_with_its_block_or_when_the_next_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    code = "import os\nfrom judges.common.files import scratch_folder\nwith scratch_folder('ours'): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    (killed,) = tmp_path.iterdir()
    with scratch_folder("other"):
        assert killed.exists()
    with scratch_folder("ours") as first, scratch_folder("ours") as second:
        assert not killed.exists()
        assert sorted(tmp_path.iterdir()) == sorted([first, second]), "what is in use stays"
    assert not list(tmp_path.iterdir())
