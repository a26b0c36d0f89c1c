"""TRL's own GRPOTrainer plays the env: its loop parses the turns, calls the tools and asks for rewards."""

import inspect
import json
import math

import pytest

from email_env.adapters.episode import OVER
from email_env.adapters.trl_environment import environment, hand_over_prose, rows
from email_env.errors import ConfigurationError
from judges.common.tool_calls import parse_turn
from tests.support.scripted import Scripted, scripted
from tests.support.tiny_model import tiny_model_folder

pytestmark = pytest.mark.torch

SHORT = {"max_turns": 5, "max_results": 2, "snippet_words": 2, "max_body_chars": 150}
EPISODES = list(scripted(("oracle", "random"), limit=2, **SHORT))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains one step on what the scripts say in place of the model; gives the rewards by row, and TRL's log."""
    for name in ("torch", "trl", "peft", "datasets"):
        pytest.importorskip(name, reason=f"TRL's trainer needs {name} (extra 'dev')")
    folder = tmp_path_factory.mktemp("trl")
    tiny_model_folder(folder / "model", vocab=1500)
    write_tokenizer(folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        from trl import import_utils

        patch.setattr(import_utils, "is_vllm_available", lambda *args, **kwargs: False)
        yield lambda turns, scenarios: _trained(folder, turns, scenarios)


def write_tokenizer(folder):
    """A tokenizer that knows the env's words: attention to all bytes of an episode would take gigabytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made = environment()()
    made.reset()
    words = [json.dumps(made.episode.tools), json.dumps(made.episode.messages)] * 2
    trainer = trainers.BpeTrainer(vocab_size=1400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(words, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>").save_pretrained(str(folder))


def _trained(folder, turns, scenarios):
    from importlib.resources import files

    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(str(folder / "model"))
    tokenizer.chat_template = files("trl").joinpath("chat_templates/qwen2_5.jinja").read_text()
    tokenizer.pad_token = "<|endoftext|>"
    size = len(turns) // len(scenarios)
    chosen = [row for row in rows(split="test", **SHORT) if row["scenario_id"] in scenarios]
    got = []

    class Says(GRPOTrainer):
        """Says the turns of a row, one after the other, in place of what the model would sample."""

        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            if not hasattr(self, "said"):
                self.said, self.heads = [0] * len(turns), [list(ids) for ids in prompt_ids]
            free, ids = list(range(len(turns))), []
            for prompt in prompt_ids:
                row = next(row for row in free if list(prompt[: len(self.heads[row])]) == self.heads[row])
                free.remove(row)
                words = turns[row][self.said[row]] if self.said[row] < len(turns[row]) else "That is all."
                self.said[row] += 1
                ids.append([*tokenizer.encode(words), tokenizer.eos_token_id])
                self.heads[row] = [*prompt, *ids[-1]]
            return ids, None

    def keep(environments, completions, **columns):
        got.extend((env.get_reward(), completion) for env, completion in zip(environments, completions, strict=True))
        return [None] * len(environments)

    settings = GRPOConfig(
        str(folder / "out"), use_cpu=True, per_device_train_batch_size=1, gradient_accumulation_steps=len(turns),
        num_generations=size, max_steps=1,
        max_completion_length=4000, logging_steps=1, report_to="none", save_strategy="no", shuffle_dataset=False,
        disable_tqdm=True, beta=0.0, bf16=False,
    )  # fmt: skip
    trainer = Says(
        AutoModelForCausalLM.from_pretrained(str(folder / "model"), max_position_embeddings=8000),
        [hand_over_prose, keep],
        args=settings,
        train_dataset=Dataset.from_list(chosen),
        processing_class=tokenizer,
        environment_factory=environment(split="test", **SHORT),
    )
    trainer.train()
    return got, next(log for log in trainer.state.log_history if "reward" in log)


def by_scenario(episodes: list[Scripted]):
    """Rows as TRL has them: the members of a group side by side."""
    scenarios = list(dict.fromkeys(episode.scenario_id for episode in episodes))
    return [episode for scenario in scenarios for episode in episodes if episode.scenario_id == scenario], scenarios


def test_a_step_of_the_trainer_gets_gymnasiums_rewards_to_the_digit(trained):
    episodes, scenarios = by_scenario(EPISODES)
    got, log = trained([episode.actions for episode in episodes], scenarios)
    assert [reward for reward, _ in got] == [episode.reward for episode in episodes]
    mean = sum(episode.reward for episode in episodes) / len(episodes)
    assert log["rewards/MessageEnvironment/mean"] == pytest.approx(mean, abs=1e-6)
    assert log["reward"] == pytest.approx(mean, abs=1e-6)
    assert math.isfinite(log["grad_norm"])
    assert log["grad_norm"] > 0


def test_prose_is_handed_over_and_what_has_no_end_has_no_reward(trained):
    oracle = EPISODES[0]
    answer = parse_turn(oracle.actions[-1]).calls[0].arguments["answer"]
    turns = [oracle.actions, [*oracle.actions[:-1], answer], [*oracle.actions[:-1], '<tool_call>{"name": ']]
    got, _ = trained([*turns, oracle.actions], [oracle.scenario_id])
    assert [reward for reward, _ in got] == [oracle.reward, pytest.approx(oracle.reward - 0.4), None, oracle.reward]


def test_two_calls_of_a_turn_are_two_turns_to_trl(trained):
    """Gymnasium's env runs them in one turn; TRL hands over calls, not turns."""
    oracle = next(episode for episode in EPISODES if len(episode.actions) == 3)
    search, read, answer = oracle.actions
    (got, completion), _ = trained([[f"{search}\n{read}", answer]] * 2, [oracle.scenario_id])[0]
    assert got == oracle.reward
    assert [message["role"] for message in completion[:4]] == ["assistant", "tool", "tool", "assistant"]


def test_every_script_gets_gymnasiums_rewards_by_the_tools_alone():
    made = environment(split="test")()
    for episode in scripted(limit=10):
        made.reset(scenario_id=episode.scenario_id)
        for action in episode.actions:
            assert made.get_reward() is None
            for call in parse_turn(action).calls:
                getattr(made, call.name)(**call.arguments)
        assert (made.get_reward(), made.episode.ending) == (episode.reward, episode.ending)


def test_what_is_called_after_the_end_changes_nothing():
    made = environment(split="test")()
    assert made.reset(scenario_id=EPISODES[0].scenario_id, prompt=[]) is None
    assert made.get_reward() is None
    made.return_final_answer("I don't know", [])
    reward = made.get_reward()
    assert made.search_inbox(["budget"]) == OVER
    assert made.get_reward() == reward is not None


def test_the_tools_are_those_of_the_env_as_transformers_reads_them():
    from transformers.utils import get_json_schema

    made = environment()()
    made.reset()
    for tool in made.episode.tools:
        wanted = tool["function"]
        seen = get_json_schema(getattr(made, wanted["name"]))["function"]
        assert (seen["name"], seen["description"]) == (wanted["name"], wanted["description"])
        assert set(seen["parameters"]["properties"]) == set(wanted["parameters"]["properties"])
        assert seen["parameters"].get("required", []) == wanted["parameters"]["required"]
    assert list(inspect.signature(made.read_email).parameters) == ["message_id", "offset"]


def test_wrong_arguments_reach_the_env_and_a_plain_env_is_refused():
    made = environment()()
    made.reset(seed=1)
    assert "has no argument 'query'" in made.search_inbox(query="budget")
    assert made.episode.error == "bad_args"
    with pytest.raises(ConfigurationError, match="FrozenLake-v1 gives no info"):
        environment("FrozenLake-v1")


def test_any_env_that_speaks_in_messages_has_rows():
    (first, second) = rows("examples.guess_number:GuessNumber-v0", count=2)
    assert (first["seed"], second["seed"]) == (0, 1)
    assert json.dumps(first["prompt"]).count("Guess my number") == 1
    assert callable(environment("examples.guess_number:GuessNumber-v0").guess)
