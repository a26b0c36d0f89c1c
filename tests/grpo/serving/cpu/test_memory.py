"""What vLLM is told of a container's memory: of what a cgroup has used, cached files are free."""

from types import SimpleNamespace

import pytest

from grpo.serving.cpu.memory import install_count

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
    install_count(made, lambda: left)
    found = made.get_memory_node_info(1)
    assert (found.available_memory, found.total_memory, found.node) == (available * GIB, 8 * GIB, 1)
