"""Which GPU serves and which trains, for every number of GPUs."""

import pytest

from grpo.devices.placement import Placement, place
from grpo.errors import ConfigError
from grpo.machine.hardware import parse_gpus

LISTING = "".join(f"{card}, GPU-{card * 11:02}, NVIDIA H100, 81559\n" for card in range(8))


@pytest.mark.parametrize(
    ("cards", "asked", "servers", "learners", "shared"),
    [
        (1, {}, ((0,),), (0,), True),
        (2, {}, ((0,),), (1,), False),
        (8, {}, ((0,),), (7,), False),
        (8, {"tensor_parallel": 4}, ((0, 1, 2, 3),), (7,), False),
        (2, {"tensor_parallel": 2}, ((0, 1),), (1,), True),
        (8, {"servers": 3, "tensor_parallel": 2, "learners": 2}, ((0, 1), (2, 3), (4, 5)), (6, 7), False),
        (8, {"learners": 8}, ((0,),), (0, 1, 2, 3, 4, 5, 6, 7), True),
        (2, {"servers": 0}, (), (1,), False),
        (2, {"learners": 0}, ((0,),), (), False),
    ],
)
def test_servers_take_gpus_from_the_front_and_learners_from_the_back(cards, asked, servers, learners, shared):
    placement = place(cards, **asked)
    assert placement == Placement(servers, learners)
    assert placement.shared is shared


@pytest.mark.parametrize(("cards", "asked"), [(1, {"tensor_parallel": 2}), (4, {"learners": 5}), (2, {"servers": 3})])
def test_too_few_gpus_are_refused(cards, asked):
    with pytest.raises(ConfigError, match=rf"{cards} GPU\(s\) are visible; ask for fewer, show more"):
        place(cards, **asked)


def test_no_gpu_at_all_is_an_error_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match=r"nvidia-smi shows no GPU \(CUDA_VISIBLE_DEVICES = ''\); train with --cpu"):
        place(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1a2b")
    with pytest.raises(ConfigError, match=r"= 'MIG-1a2b'\); a part of a GPU \(MIG\) is not planned for"):
        place(0)


@pytest.mark.parametrize(
    ("visible", "ids"),
    [(None, [str(card) for card in range(8)]), ("5,2", ["5", "2"]), ("GPU-3", ["GPU-33"]), ("", []), ("3,9,1", ["3"])],
)
def test_gpus_keep_the_names_by_which_they_are_shown(visible, ids):
    assert [gpu.id for gpu in parse_gpus(LISTING, visible)] == ids
