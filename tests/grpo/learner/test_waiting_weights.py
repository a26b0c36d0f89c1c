"""A model that leaves the device between updates."""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from tests.support.tiny_model import tiny_engine, tiny_model_folder  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_sleeping_model_leaves_the_device_but_its_adapter_and_learns_what_one_that_stays_learns(tmp_path):
    model = tiny_model_folder(tmp_path)
    rows = [Segment(list(range(n)), [False] * 4 + [True] * (n - 4), [0.0] * n, 1.0) for n in (20, 33)]
    stays, sleeps = tiny_engine(model), tiny_engine(model, sleeps=True)
    frozen = [weight for weight in sleeps.model.parameters() if not weight.requires_grad]
    on_host = [weight.data_ptr() for weight in frozen]
    for step in range(2):
        sleeps.wake_up()
        assert not set(on_host) & {weight.data_ptr() for weight in frozen}, "they are computed with where the device is"
        found = [each.forward_backward(rows, LossSpec("imitation")) for each in (stays, sleeps)]
        assert found[0] == found[1], step
        for each in (stays, sleeps):
            each.optim_step(0.01, 1.0)
        sleeps.sleep()
        assert [weight.data_ptr() for weight in frozen] == on_host
    for one, other in zip(stays.parameters, sleeps.parameters, strict=True):
        assert torch.equal(one, other)
