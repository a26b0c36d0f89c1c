import json
import resource

import pytest

from grpo.config import TrainConfig, load_config, resume_differences
from grpo.errors import CheckpointError, ConfigError
from grpo.runs.directory import RunDirectory
from judges.common.files import write_json

CONFIG = TrainConfig(env="E")


def begin(root, config):
    """A run that has done some of its work."""
    with RunDirectory.open(root, config, resume=True) as run:
        run.checkpoints.mkdir()


def resumed(root, config=CONFIG):
    """The settings with which a run goes on."""
    with RunDirectory.open(root, config, resume=True) as run:
        return run.config


def test_a_run_directory_is_locked_for_one_process_and_free_after_close(tmp_path):
    run = RunDirectory.open(tmp_path / "r", CONFIG, resume=False)
    with pytest.raises(CheckpointError, match="another process is training"):
        RunDirectory.open(tmp_path / "r", CONFIG, resume=True)
    run.close()
    resumed(tmp_path / "r")


def test_a_run_is_its_owner_s_alone_unless_the_folder_was_there(tmp_path):
    (tmp_path / "shared").mkdir(0o755)
    for name, mode in (("own", 0o700), ("shared", 0o755)):
        begin(tmp_path / name, CONFIG)
        assert (tmp_path / name).stat().st_mode & 0o777 == mode


def test_an_existing_run_is_not_overwritten_by_accident(tmp_path):
    begin(tmp_path / "r", CONFIG)
    with pytest.raises(ConfigError, match="continue it with --resume"):
        RunDirectory.open(tmp_path / "r", CONFIG, resume=False)


@pytest.mark.parametrize("resume", [False, True])
def test_settings_with_which_nothing_was_done_may_be_mended(tmp_path, resume):
    RunDirectory.open(tmp_path / "r", CONFIG.model_copy(update={"model": "smolm2"}), resume=False).close()
    RunDirectory.open(tmp_path / "r", CONFIG, resume=resume).close()
    assert json.loads((tmp_path / "r" / "config.json").read_text())["model"] == CONFIG.model


def test_a_run_goes_on_in_the_dtype_that_it_was_begun_in(tmp_path):
    begin(tmp_path / "r", CONFIG)
    with RunDirectory.open(tmp_path / "r", CONFIG, resume=True) as run:
        assert run.config.dtype == "auto"
        run.write_config(run.config.model_copy(update={"dtype": "float32"}))
    assert resumed(tmp_path / "r").dtype == "float32"
    with pytest.raises(ConfigError, match="dtype: 'float32' -> 'bfloat16'"):
        resumed(tmp_path / "r", CONFIG.model_copy(update={"dtype": "bfloat16"}))


@pytest.mark.parametrize(("threads", "kept"), [(1, 1), (3, None)])
def test_a_run_keeps_its_number_of_threads_where_there_are_as_many_cores(tmp_path, monkeypatch, threads, kept):
    monkeypatch.setattr("grpo.runs.directory.cpu_count", lambda: 2)
    begin(tmp_path / "r", CONFIG.model_copy(update={"threads": threads}))
    assert resumed(tmp_path / "r").threads == kept


def test_steps_that_are_made_are_not_taken_back_and_evaluations_may_begin_later(tmp_path):
    begin(tmp_path / "r", CONFIG.model_copy(update={"steps": 6}))
    write_json(tmp_path / "r" / "checkpoints" / "step-0004" / "state.json", {})
    for steps, kept in ((1, 4), (5, 5), (9, 9)):
        fewer = load_config(None, {"env": "E", "steps": steps, "eval.every": 2})
        config = resumed(tmp_path / "r", fewer)
        assert (config.steps, config.eval.every) == (kept, 2)


@pytest.mark.parametrize("content", ['{"architectures": ["LlamaForCausalLM"]}', "[]", "hello", ""])
def test_the_folder_of_something_else_is_left_alone(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"config\.json is not a run's; choose another --run-dir"):
            RunDirectory.open(tmp_path, CONFIG, resume=resume)
    assert (tmp_path / "config.json").read_text() == content


def test_a_place_that_cannot_hold_a_run_is_named(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError, match=f"{place} cannot hold a run: .*; choose another --run-dir"):
            RunDirectory.open(place, CONFIG, resume=False)


def test_a_changed_setting_is_refused_with_the_difference_and_the_config_is_kept(tmp_path):
    begin(tmp_path / "r", CONFIG)
    with pytest.raises(ConfigError, match=r"learning_rate: 2e-05 -> 0\.1") as refused:
        resumed(tmp_path / "r", load_config(None, {"env": "E", "optimizer.learning_rate": 0.1}))
    saved = str(tmp_path / "r" / "config.json")
    assert f"Use the earlier settings (--recipe {saved} has them)" in str(refused.value)
    assert resumed(tmp_path / "r", load_config(saved, {"env": "E"})).optimizer.learning_rate == 2e-5


def test_what_was_moved_is_the_same_under_its_name_alone(tmp_path):
    for name in ("old/model", "new/model", "new/other"):
        (tmp_path / name).mkdir(parents=True)

    def named(path, setting="model"):
        return load_config(None, {"env": "E", setting: str(path)})

    def difference(before, now, setting="model"):
        one, other = (named(path, setting).model_dump(mode="json") for path in (before, now))
        return resume_differences(TrainConfig, one, other)

    old, new = tmp_path / "old/model", tmp_path / "new/model"
    assert difference(old, new) == [f"model: {str(old)!r} -> {str(new)!r}"], "two models, of which each is there"
    assert difference(old, old.parent / ".." / "old/model") == []
    old.rmdir()
    for setting in ("model", "init_adapter", "judge.rubric", "env_import"):
        assert difference(old, new, setting) == []
    assert difference(old, tmp_path / "new/other") == [f"model: {str(old)!r} -> {str(tmp_path / 'new/other')!r}"]
    assert difference("a/model", "b/model") == ["model: 'a/model' -> 'b/model'"], "of a hub"
    assert difference(TrainConfig(env="E").train_split, new, "train_split") != []
    begin(tmp_path / "r", named(old))
    resumed(tmp_path / "r", named(new))
    assert json.loads((tmp_path / "r" / "config.json").read_text())["model"] == str(new)


def test_a_rubric_that_was_changed_in_its_place_is_refused(tmp_path):
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Short answers are good.", encoding="utf-8")
    judged = load_config(None, {"env": "E", "reward": "ruler", "judge.rubric": str(rubric)})
    begin(tmp_path / "r", judged)
    resumed(tmp_path / "r", judged)
    rubric.write_text("Long answers are good.", encoding="utf-8")
    changed = r"judge\.rubric: .*rubric\.txt was changed; .*/r/judge-rubric\.txt has the earlier text"
    with pytest.raises(ConfigError, match=changed):
        resumed(tmp_path / "r", judged)
    rubric.unlink()
    with pytest.raises(ConfigError, match=r"the rubric .*rubric\.txt \(judge\.rubric\) cannot be read"):
        RunDirectory.open(tmp_path / "new", judged, resume=False)
    assert not (tmp_path / "new").exists()
    (tmp_path / "r" / "judge-rubric.txt").rename(rubric)
    resumed(tmp_path / "r", judged)
    assert (tmp_path / "r" / "judge-rubric.txt").read_text(encoding="utf-8") == "Short answers are good."


def test_a_rubric_that_found_no_room_does_not_keep_its_run_from_going_on(tmp_path):
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Short answers are good.\n" * 1000, encoding="utf-8")
    judged = load_config(None, {"env": "E", "reward": "ruler", "judge.rubric": str(rubric)})
    begin(tmp_path / "r", judged)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, limits[1]))  # the disk takes 16 kB of its 24
    try:
        with pytest.raises(ConfigError, match=r"/r cannot hold a run: .*File too large"):
            resumed(tmp_path / "r", judged)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    resumed(tmp_path / "r", judged)
    assert (tmp_path / "r" / "judge-rubric.txt").stat().st_size == 24_000


def test_a_continued_run_keeps_the_steps_that_its_minutes_chose_and_knows_how_long_it_was_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo.runs.directory.cpu_count", lambda: 2)
    timed = CONFIG.model_copy(update={"minutes": 10.0})
    begin(tmp_path / "r", timed.model_copy(update={"steps": 7, "threads": 1}))
    longer = timed.model_copy(update={"minutes": 20.0, "threads": 2})
    for config, kept, earlier in (
        (timed, (7, 1, 10.0), (7, 10.0)),
        (longer, (7, 2, 20.0), (7, 10.0)),
        (CONFIG.model_copy(update={"steps": 9}), (9, 2, None), (7, 20.0)),
        (CONFIG.model_copy(update={"steps": 9}), (9, 2, None), (9, None)),
    ):
        with RunDirectory.open(tmp_path / "r", config, resume=True) as run:
            assert (run.config.steps, run.config.threads, run.config.minutes) == kept
            assert (run.earlier_steps, run.earlier_minutes) == earlier
