import json

import pytest

from grpo.config import TrainConfig, load_config, recipe_names
from grpo.errors import ConfigError


def test_every_bundled_recipe_is_a_valid_config():
    assert recipe_names() == ["email-cpu", "email-gpu"]
    for name in recipe_names():
        assert load_config(name, {"env": "EmailSearch-v0"}).env_kwargs["max_turns"] > 0


def test_flags_override_the_recipe_and_env_kwargs_are_merged():
    config = load_config("email-cpu", {"env": "E", "steps": 3, "env_kwargs": {"order": "relevance"}})
    assert config.steps == 3
    assert config.env_kwargs["order"] == "relevance"
    assert config.env_kwargs["max_turns"] == 5


def test_a_wrong_key_names_the_nearest_right_one():
    with pytest.raises(ConfigError, match=r"unknown setting 'learnig_rate'; did you mean 'learning_rate'\?"):
        load_config(None, {"env": "E", "learnig_rate": 1e-4})


def test_a_value_out_of_range_is_named_with_its_value():
    with pytest.raises(ConfigError, match="group_size = 1: Input should be greater than or equal to 2"):
        load_config(None, {"env": "E", "group_size": 1})


@pytest.mark.parametrize(
    ("recipe", "text", "message"),
    [
        ("r.toml", b"env_kwargs = 5", "env_kwargs = 5: Input should be a valid dictionary"),
        ("r.toml", b"learning_rate = inf", "learning_rate = inf: Input should be a finite number"),
        ("r.toml", b'reward = "best"', "reward = 'best': a reward is one of"),
        ("config.json", b"[]", r"config\.json cannot be read: it is no JSON object: '\[\]'"),
    ],
)
def test_what_no_recipe_can_hold_is_named(tmp_path, recipe, text, message):
    (tmp_path / recipe).write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        load_config(str(tmp_path / recipe), {"env": "E", "env_kwargs": {}})


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"\xef\xbb\xbfsteps = 3\r\n")
    assert load_config(str(tmp_path / "r.toml"), {"env": "E"}).steps == 3


def test_an_unknown_recipe_lists_the_bundled_ones(tmp_path):
    with pytest.raises(ConfigError, match="bundled: email-cpu, email-gpu"):
        load_config("email-tpu", {"env": "E"})
    (tmp_path / "r.toml").write_text("steps = [")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(str(tmp_path / "r.toml"), {"env": "E"})


def test_the_settings_of_a_run_are_a_recipe_for_another(tmp_path):
    run = load_config("email-cpu", {"env": "E", "steps": 3})
    (tmp_path / "config.json").write_text(run.model_dump_json())
    assert load_config(str(tmp_path / "config.json"), {"env": "E"}) == run
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        load_config(str(tmp_path / "config.json"), {"env": "E"})


def test_a_continued_run_may_change_the_number_of_steps_and_nothing_that_changes_results():
    earlier = TrainConfig(env="E", steps=5).model_dump(mode="json")
    assert TrainConfig(env="E", steps=9, threads=1).resume_difference(earlier) == []
    assert TrainConfig(env="E", seed=3).resume_difference(earlier) == ["seed: 0 -> 3"]


def test_a_run_of_an_earlier_version_can_be_continued_unless_its_settings_meant_something_else():
    earlier = TrainConfig(env="E").model_dump(mode="json")
    del earlier["loss"], earlier["kl_coef"]
    assert TrainConfig(env="E").resume_difference(earlier) == []
    assert TrainConfig(env="E", loss="grpo").resume_difference(earlier) == ["loss: 'dapo' -> 'grpo'"]
    assert TrainConfig(env="E").resume_difference({**earlier, "beam": 4}) == ["beam: 4, no setting any more"]


def test_losses_that_count_rows_alike_refuse_two_rows_a_rollout():
    with pytest.raises(ConfigError, match=r"^loss = 'gspo' counts every row the same.*use loss = 'dapo'$"):
        load_config(None, {"env": "E", "loss": "gspo", "invalid_call_weight": 0.5})
    with pytest.raises(ConfigError, match="loss = 'ppo': Input should be 'dapo', 'bnpo'"):
        load_config(None, {"env": "E", "loss": "ppo"})


def test_passwords_of_urls_stay_out_of_files_and_change_nothing_of_a_run():
    urls = {"judge_api_base": "http://me:secret@judge:8000/v1", "server_urls": ["https://you:secret@sampler/v1"]}
    config = TrainConfig.model_validate({"env": "E", **urls})
    assert (config.judge_api_base, list(config.server_urls)) == tuple(urls.values()), "they are used as they are given"
    saved = json.loads(config.model_dump_json())
    assert saved == config.model_dump(mode="json")
    assert (saved["judge_api_base"], saved["server_urls"]) == ("http://judge:8000/v1", ["https://sampler/v1"])
    assert config.resume_difference(saved) == []
    plain = json.loads(TrainConfig.model_validate({"env": "E"}).model_dump_json())
    assert (plain["judge_api_base"], plain["server_urls"]) == (None, [])
