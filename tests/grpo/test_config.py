import json

import pytest

from grpo.config import TrainConfig, load_config, recipe_names, resume_differences
from grpo.errors import ConfigError
from grpo.settings import JudgeSettings
from judges.scoring.ruler import DEFAULT_MAX_PROMPT_TOKENS
from tests.support import settings_page


def differences(earlier, now):
    return resume_differences(TrainConfig, earlier, now.model_dump(mode="json"))


def test_every_bundled_recipe_is_a_valid_config():
    assert recipe_names() == ["art-e", "email-cpu", "email-gpu", "email-gpu-80gb"]
    for name in recipe_names():
        assert load_config(name, {"env": "EmailSearch-v0"}).env_kwargs["max_turns"] > 0


def test_flags_override_the_recipe_and_env_kwargs_are_merged():
    config = load_config("email-cpu", {"env": "E", "steps": 3, "env_kwargs": {"order": "relevance"}})
    assert config.steps == 3
    assert config.env_kwargs["order"] == "relevance"
    assert config.env_kwargs["max_turns"] == 5
    one = load_config("email-cpu", {"env": "E", "env_kwargs.max_turns": 7}).env_kwargs
    assert one == {**config.env_kwargs, "max_turns": 7}


def test_a_group_of_a_recipe_is_merged_key_by_key_with_dotted_names_and_with_groups(tmp_path):
    (tmp_path / "r.toml").write_text('[judge]\nmodel = "openai/a"\nmax_cost = 1.0\nrubric = "r.txt"')
    overrides = {"env": "E", "judge.model": "openai/b", "judge": {"max_cost": 2.0}, "judge.permutations": 3}
    judge = load_config(str(tmp_path / "r.toml"), overrides).judge
    assert (judge.model, judge.max_cost, judge.permutations, judge.rubric) == ("openai/b", 2.0, 3, "r.txt")


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("learnig_rate", r"'optimizer\.learning_rate' or 'warm_start\.learning_rate'"),
        ("max_turn", r"'rollout\.max_turn_tokens'"),
        ("temperatur", r"'rollout\.temperature'"),
        ("judge.modle", r"'judge\.model'"),
        ("judges.model", r"'judge\.model'"),
        ("max_judge_failures", r"'judge\.max_failures'"),
        ("judge_api_base", r"'judge\.api_base'"),
        ("server_urls", r"'server\.urls'"),
    ],
)
def test_a_wrong_key_names_the_nearest_right_one(key, named):
    with pytest.raises(ConfigError, match=f"^unknown setting {key!r}; did you mean {named}\\?$"):
        load_config(None, {"env": "E", key: 1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 4}, r"^unknown setting 'beam'; the settings are env, .*, judge\.model, .*server\.extra_args$"),
        ({"rollout.group_size": 1}, r"^rollout\.group_size = 1: Input should be greater than or equal to 2"),
        ({"loss.type": "ppo"}, r"^loss\.type = 'ppo': Input should be 'dapo', 'bnpo'"),
        (
            {"loss.type": "gspo", "loss.invalid_call_weight": 0.5},
            r"^loss\.type = 'gspo' counts every row the same.*use loss\.type = 'dapo'$",
        ),
        ({"loss.type": "grpo", "loss.turn_credit": True}, r"with loss\.turn_credit = True a rollout is several rows"),
        (
            {"learner.gradient_checkpointing": "maybe", "rollout.env_workers": -1},
            r"^rollout\.env_workers = -1: no place for envs; choose auto, threads, or a number of processes \(0: none\)\n"
            r"learner\.gradient_checkpointing = 'maybe': Input should be 'auto', True or False$",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_can(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config(None, {"env": "E", **settings})


@pytest.mark.parametrize(
    ("recipe", "text", "message"),
    [
        ("r.toml", b"env_kwargs = 5", "env_kwargs = 5: Input should be a valid dictionary"),
        (
            "r.toml",
            b"optimizer.learning_rate = inf",
            r"^optimizer\.learning_rate = inf: Input should be a finite number",
        ),
        ("r.toml", b'judge = "m"', r"judge = 'm': judge is a group of settings: judge\.api_base, "),
        ("r.toml", b'reward = "best"', "reward = 'best': a reward is one of"),
        ("r.toml", b"steps = [", r"the recipe .*r\.toml cannot be read"),
        ("config.json", b"{", r"config\.json cannot be read"),
        ("config.json", b"[]", r"config\.json cannot be read: it is no JSON object: '\[\]'"),
    ],
)
def test_what_no_recipe_can_hold_is_named(tmp_path, recipe, text, message):
    (tmp_path / recipe).write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        load_config(str(tmp_path / recipe), {"env": "E", "env_kwargs": {}, "judge.max_cost": 1.0})


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"\xef\xbb\xbfsteps = 3\r\n")
    assert load_config(str(tmp_path / "r.toml"), {"env": "E"}).steps == 3


def test_an_unknown_recipe_lists_the_bundled_ones():
    with pytest.raises(ConfigError, match="bundled: art-e, email-cpu, email-gpu, email-gpu-80gb"):
        load_config("email-tpu", {"env": "E"})


def test_the_settings_of_a_run_are_a_recipe_for_another(tmp_path):
    run = load_config("email-cpu", {"env": "E", "steps": 3})
    (tmp_path / "config.json").write_text(run.model_copy(update={"threads": 64}).model_dump_json())  # of its machine
    assert load_config(str(tmp_path / "config.json"), {"env": "E"}) == run


def test_a_continued_run_may_change_what_its_field_lets_change_and_nothing_else():
    earlier = TrainConfig(env="E", steps=5).model_dump(mode="json")
    changed = load_config(None, {"env": "E", "steps": 9, "threads": 1, "rollout.env_workers": 4})
    assert differences(earlier, changed) == []
    assert differences(earlier, TrainConfig(env="E", seed=3)) == ["seed: 0 -> 3"]
    grpo = load_config(None, {"env": "E", "loss.type": "grpo", "judge.max_cost": 1.0})
    assert differences(earlier, grpo) == ["loss.type: 'dapo' -> 'grpo'"]
    assert differences({**earlier, "beam": 4}, TrainConfig(env="E")) == ["beam: 4 -> None"]


def test_passwords_of_urls_stay_out_of_files_and_change_nothing_of_a_run():
    urls = {"judge.api_base": "http://me:secret@judge:8000/v1", "server.urls": ["https://you:secret@sampler/v1"]}
    config = load_config(None, {"env": "E", **urls})
    assert (config.judge.api_base, list(config.server.urls)) == tuple(urls.values()), "they are used as they are given"
    saved = json.loads(config.model_dump_json())
    assert saved == config.model_dump(mode="json")
    assert (saved["judge"]["api_base"], saved["server"]["urls"]) == ("http://judge:8000/v1", ["https://sampler/v1"])
    assert differences(saved, config) == []
    plain = json.loads(TrainConfig(env="E").model_dump_json())
    assert (plain["judge"]["api_base"], plain["server"]["urls"]) == (None, [])


def test_a_judges_parameters_are_saved_without_keys_and_may_change_in_a_continuation():
    params = {"temperature": 0, "api_key": "sk-of-the-tests", "max_tokens": 900}
    config = load_config(None, {"env": "E", "judge.extra_litellm_params": params, "judge.timeout_seconds": 300})
    assert config.judge.call == {"api_base": None, "timeout_seconds": 300.0, "extra_litellm_params": params}
    saved = config.model_dump(mode="json")
    assert saved["judge"]["extra_litellm_params"] == {"temperature": 0, "max_tokens": 900}
    assert differences(saved, TrainConfig(env="E")) == []
    assert JudgeSettings().max_prompt_tokens == DEFAULT_MAX_PROMPT_TOKENS


def test_the_page_of_settings_says_what_the_fields_say():
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), (
        "write it anew: python -m tests.support.settings_page"
    )
