"""Each bundled recipe for GPUs fits the card that it is for."""

import pytest

from grpo.config import load_config, recipe_names
from grpo.devices.memory import GIB
from grpo.devices.plan import USABLE, plan_gpus
from grpo.devices.shape import RECIPES_MODELS
from grpo.machine.hardware import Gpu

SMALLEST_CARDS = {"email-gpu": 22.5, "email-gpu-80gb": 79.1, "art-e": 79.1}
"""GiB of the smallest card that is sold as 24 or 80 GB: an L4, and an A100 or H100."""


@pytest.mark.parametrize("name", SMALLEST_CARDS)
def test_a_recipe_fits_on_the_smallest_card_of_its_kind(name):
    config = load_config(name, {"env": "EmailSearch-v0"})
    plan = plan_gpus(config, RECIPES_MODELS[config.model], [Gpu("card", SMALLEST_CARDS[name])])
    assert plan.learner is not None
    assert plan.server is not None
    assert plan.learner.total + plan.server.total <= USABLE * SMALLEST_CARDS[name] * GIB
    assert plan.sequences[0] >= config.rollout.concurrency / 4


@pytest.mark.parametrize(
    ("name", "gib", "changed"),
    [
        ("email-gpu-80gb", 31.8, {}),  # an RTX 5090
        ("email-gpu-80gb", 22.5, {"learner.token_budget": 4096, "rollout.max_tokens": 2048}),
        ("art-e", 44.5, {}),  # an L40S
    ],
)
def test_a_recipe_for_a_large_card_fits_on_a_smaller_one_in_turns(name, gib, changed):
    config = load_config(name, {"env": "EmailSearch-v0", **changed})
    plan = plan_gpus(config, RECIPES_MODELS[config.model], [Gpu("card", gib)], host_gib=96)
    assert plan.in_turns
    assert plan.sequences[0] >= config.rollout.concurrency / 6


def test_every_recipe_for_gpus_is_tested():
    on_gpus = {name for name in recipe_names() if load_config(name, {"env": "EmailSearch-v0"}).device == "cuda"}
    assert on_gpus == set(SMALLEST_CARDS)


def test_the_published_settings_are_those_of_the_recipe():
    config = load_config("art-e", {"env": "EmailSearch-v0"})
    rollout = config.rollout
    assert (rollout.groups_per_step, rollout.group_size, rollout.max_turn_tokens) == (12, 4, 2048)
    assert config.optimizer.learning_rate == 1.2e-5
    assert config.steps * rollout.groups_per_step == 3 * 4000
