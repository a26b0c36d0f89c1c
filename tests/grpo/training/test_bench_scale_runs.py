"""The benchmark of real runs: its sums by hand, and one run against a real vLLM server."""

import sys
from types import SimpleNamespace

import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from scaling.runs import Form, Watch, Work, command, drawn, run, running, summary

from grpo.serving.fleet import Fleet
from grpo.serving.server import ExternalServer


def test_a_step_is_summed_up_by_medians():
    steps = [
        {"time/step": 10.0, "time/train": 4.0, "time/publish": 0.5, "speed/sample_tokens_per_second": 100.0},
        {"time/step": 20.0, "time/train": 5.0, "time/publish": 0.1, "speed/sample_tokens_per_second": 50.0},
        {"time/step": 40.0, "time/train": 4.0, "time/publish": 0.3, "speed/sample_tokens_per_second": 60.0},
    ]
    found = summary(steps, 0.25)
    assert (found.step_seconds, found.publish_seconds, found.sampled) == (20.0, 0.3, 60.0)
    assert found.trained == 0.0  # nothing was learned
    assert found.sampler_idle == 0.25
    assert found.learner_idle == 1.0 - 5.0 / 20.0


def test_a_server_is_idle_while_it_computes_no_request():
    watch = Watch([], [(0.0, True), (1.0, True), (2.0, False), (3.0, False), (4.0, True), (5.0, False)])
    assert watch.idle(4.0) == 0.5  # of seconds 1 to 4, and not what comes behind the last request
    assert Watch([], [(0.0, False)]).idle(4.0) == 1.0
    text = '# HELP x\nvllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\nother 7\n'
    assert running(text) == 3.0


def test_two_processes_are_started_by_torchrun_and_all_servers_are_named(tmp_path):
    fleet = Fleet([ExternalServer("http://a:1"), ExternalServer("http://b:2")])
    one = command(Form(2, 1, 1), Work(4, 3), fleet, tmp_path)
    assert one[1:4] == ["-m", "grpo", "train"]
    assert [one[i + 1] for i, part in enumerate(one) if part == "--server"] == ["http://a:1", "http://b:2"]
    assert one[one.index("--max-staleness") + 1] == "1"
    two = command(Form(2, 2, 0), Work(4, 3, tmp_path), fleet, tmp_path)
    assert two[2:9] == ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "grpo", "train"]
    assert two[two.index("--init-adapter") + 1] == str(tmp_path)


def test_rewards_differ_with_the_tokens_alone():
    group = SimpleNamespace(trajectories=[SimpleNamespace(token_ids=ids) for ids in ([1, 2], [1, 3], [1, 2])])
    first, other, again = drawn(group)
    assert first == again != other
    assert all(0.0 <= reward <= 1.0 for reward in (first, other))


@pytest.mark.vllm
def test_a_real_run_is_measured(vllm_server, tmp_path):
    fleet = Fleet([ExternalServer(vllm_server.url)])
    fleet.wait_ready()
    short = ("--set", "rollout.max_turn_tokens=8", "--group-size", "2", "--threads", "1")
    found = run(Form(1, 1, 0), Work(2, 1, options=short), fleet, tmp_path / "run")
    assert found.step_seconds > found.publish_seconds > 0.0
    assert found.sampled > 0.0
    assert found.trained > 0.0
    assert 0.0 < found.learner_idle < 1.0
    assert 0.0 < found.sampler_idle <= 1.0  # it waits while the learner computes, and may end between two looks


def test_a_run_that_fails_says_why(tmp_path):
    fleet = Fleet([ExternalServer("http://127.0.0.1:9")])
    with pytest.raises(RuntimeError, match="--group-size"):
        run(Form(1, 1, 0), Work(1, 1, options=("--group-size", "none")), fleet, tmp_path / "run")
