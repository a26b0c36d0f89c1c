"""What vLLM is told of a container's memory: of what a cgroup has used, cached files are free."""

from types import SimpleNamespace

import pytest

from grpo.serving.cpu.memory import install_count, why_not_count

GIB = 1024**3


def worker(total, available):
    def get_memory_node_info(node_id=0):
        return SimpleNamespace(total_memory=total * GIB, available_memory=available * GIB, node=node_id)

    return SimpleNamespace(get_memory_node_info=get_memory_node_info)


@pytest.mark.parametrize(
    ("left", "available"),
    [(None, 1), (6.5, 6.5), (0.5, 1), (20.0, 8)],
    ids=["no limit", "files cached", "vLLM knows of more", "no more than there is"],
)
def test_the_memory_of_a_container_is_what_its_cgroups_leave(left, available):
    made = worker(8, 1)
    assert why_not_count(made) == ""
    install_count(made, lambda: left)
    found = made.get_memory_node_info(1)
    assert (found.available_memory, found.total_memory, found.node) == (available * GIB, 8 * GIB, 1)


def test_another_function_is_left_alone():
    assert "takes ['node', 'kind']" in why_not_count(SimpleNamespace(get_memory_node_info=lambda node, kind: None))
    assert why_not_count(SimpleNamespace()) == "get_memory_node_info takes [], not ['node_id']"
