import json
import re

import pytest

from grpo.config import TrainConfig, dotted, load_config, recipe_names
from grpo.errors import ConfigError
from grpo.settings import JudgeSettings
from judges.scoring.ruler import DEFAULT_MAX_PROMPT_TOKENS

FLAT = {
    "env": "env",
    "env_import": "env_import",
    "env_kwargs": "env_kwargs",
    "train_split": "train_split",
    "eval_split": "eval.split",
    "model": "model",
    "device": "device",
    "threads": "threads",
    "seed": "seed",
    "steps": "steps",
    "groups_per_step": "rollout.groups_per_step",
    "group_size": "rollout.group_size",
    "refill_rounds": "rollout.refill_rounds",
    "temperature": "rollout.temperature",
    "max_turn_tokens": "rollout.max_turn_tokens",
    "max_tokens": "rollout.max_tokens",
    "history": "rollout.history",
    "chat_template_kwargs": "rollout.chat_template_kwargs",
    "concurrency": "rollout.concurrency",
    "reward": "reward",
    "judge_model": "judge.model",
    "judge_api_base": "judge.api_base",
    "rubric": "judge.rubric",
    "judge_permutations": "judge.permutations",
    "judge_concurrency": "judge.concurrency",
    "judge_max_cost": "judge.max_cost",
    "max_judge_failures": "judge.max_failures",
    "learning_rate": "optimizer.learning_rate",
    "lr_warmup_steps": "optimizer.warmup_steps",
    "lr_final": "optimizer.final_lr_share",
    "updates_per_step": "optimizer.updates_per_step",
    "loss": "loss.type",
    "kl_coef": "loss.kl_coef",
    "scale_by_std": "loss.scale_by_std",
    "negative_weight": "loss.negative_weight",
    "invalid_call_weight": "loss.invalid_call_weight",
    "clip_low": "loss.clip_low",
    "clip_high": "loss.clip_high",
    "max_importance_weight": "loss.max_importance_weight",
    "max_grad_norm": "optimizer.max_grad_norm",
    "max_gap": "loss.max_gap",
    "lora_rank": "lora.rank",
    "lora_alpha": "lora.alpha",
    "init_adapter": "init_adapter",
    "token_budget": "learner.token_budget",
    "warm_start_policy": "warm_start.policy",
    "warm_start_steps": "warm_start.steps",
    "warm_start_batch": "warm_start.batch",
    "warm_start_learning_rate": "warm_start.learning_rate",
    "eval_scenarios": "eval.scenarios",
    "eval_samples": "eval.samples",
    "eval_seed": "eval.seed",
    "eval_greedy": "eval.greedy",
    "eval_every": "eval.every",
    "report_samples": "report_samples",
    "keep_checkpoints": "keep_checkpoints",
    "track": "track",
    "show_every": "show_every",
    "server_urls": "server.urls",
}


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
    ],
)
def test_a_wrong_key_names_the_nearest_right_one(key, named):
    with pytest.raises(ConfigError, match=f"^unknown setting {key!r}; did you mean {named}\\?$"):
        load_config(None, {"env": "E", key: 1})


def test_a_wrong_key_that_is_like_no_other_is_shown_them_all():
    with pytest.raises(
        ConfigError, match=r"unknown setting 'beam'; the settings are env, .*, judge\.model, .*server\.extra_args$"
    ):
        load_config(None, {"env": "E", "beam": 4})


def test_every_setting_is_found_by_a_name_without_its_group():
    """``FLAT`` holds names with the words of group and setting in one, as people know them from elsewhere."""
    known = dotted(TrainConfig(env="E").model_dump())
    for flat, name in FLAT.items():
        assert name in known
        if flat != name:
            with pytest.raises(ConfigError) as refused:
                load_config(None, {"env": "E", flat: "x"})
            first = str(refused.value).replace("did you mean ", "is a group of settings: ").split(": ", 1)[1]
            assert re.findall(r"[\w.]+", first.split("settings: ")[-1])[0] == name, flat


def test_a_value_out_of_range_is_named_with_its_value():
    with pytest.raises(ConfigError, match=r"^rollout\.group_size = 1: Input should be greater than or equal to 2"):
        load_config(None, {"env": "E", "rollout.group_size": 1})


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


def test_a_setting_of_several_kinds_has_one_error():
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"env": "X-v0", "server.sleep_mode": "maybe", "rollout.env_workers": -1})
    assert str(caught.value).splitlines() == [
        "rollout.env_workers = -1: Input should be 'auto' or 'threads', or greater than or equal to 0",
        "server.sleep_mode = 'maybe': Input should be 'auto', or a valid boolean, unable to interpret input",
    ]


def test_an_unknown_recipe_lists_the_bundled_ones(tmp_path):
    with pytest.raises(ConfigError, match="bundled: art-e, email-cpu, email-gpu, email-gpu-80gb"):
        load_config("email-tpu", {"env": "E"})
    (tmp_path / "r.toml").write_text("steps = [")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(str(tmp_path / "r.toml"), {"env": "E"})


def test_the_settings_of_a_run_are_a_recipe_for_another(tmp_path):
    run = load_config("email-cpu", {"env": "E", "steps": 3})
    (tmp_path / "config.json").write_text(run.model_copy(update={"threads": 64}).model_dump_json())  # of its machine
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
    del earlier["eval"], earlier["loss"]["type"], earlier["loss"]["kl_coef"]
    assert TrainConfig(env="E").resume_difference(earlier) == []
    assert TrainConfig(env="E").resume_difference({**earlier, "beam": 4}) == ["beam: 4, no setting any more"]
    grpo = load_config(None, {"env": "E", "loss.type": "grpo", "judge.max_cost": 1.0})
    assert grpo.resume_difference(earlier) == ["loss.type: 'dapo' -> 'grpo'"]


def test_losses_that_count_rows_alike_refuse_two_rows_a_rollout():
    with pytest.raises(ConfigError, match=r"^loss\.type = 'gspo' counts every row the same.*use loss\.type = 'dapo'$"):
        load_config(None, {"env": "E", "loss.type": "gspo", "loss.invalid_call_weight": 0.5})
    with pytest.raises(ConfigError, match=r"^loss\.type = 'ppo': Input should be 'dapo', 'bnpo'"):
        load_config(None, {"env": "E", "loss.type": "ppo"})


def test_passwords_of_urls_stay_out_of_files_and_change_nothing_of_a_run():
    urls = {"judge.api_base": "http://me:secret@judge:8000/v1", "server.urls": ["https://you:secret@sampler/v1"]}
    config = load_config(None, {"env": "E", **urls})
    assert (config.judge.api_base, list(config.server.urls)) == tuple(urls.values()), "they are used as they are given"
    saved = json.loads(config.model_dump_json())
    assert saved == config.model_dump(mode="json")
    assert (saved["judge"]["api_base"], saved["server"]["urls"]) == ("http://judge:8000/v1", ["https://sampler/v1"])
    assert config.resume_difference(saved) == []
    plain = json.loads(TrainConfig(env="E").model_dump_json())
    assert (plain["judge"]["api_base"], plain["server"]["urls"]) == (None, [])


def test_a_judges_parameters_are_saved_without_keys_and_may_change_in_a_continuation():
    params = {"temperature": 0, "api_key": "sk-of-the-tests", "max_tokens": 900}
    config = load_config(None, {"env": "E", "judge.extra_litellm_params": params, "judge.timeout_seconds": 300})
    assert config.judge.call == {"api_base": None, "timeout_seconds": 300.0, "extra_litellm_params": params}
    saved = config.model_dump(mode="json")
    assert saved["judge"]["extra_litellm_params"] == {"temperature": 0, "max_tokens": 900}
    assert TrainConfig(env="E").resume_difference(saved) == []
    assert JudgeSettings().max_prompt_tokens == DEFAULT_MAX_PROMPT_TOKENS
