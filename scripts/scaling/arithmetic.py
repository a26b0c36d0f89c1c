"""Seconds of a step on many GPUs, by arithmetic: what each part costs, and which part is full first.

Nothing here was run on a GPU. What a GPU computes and reads a second is its data sheet's, times an assumed share. The
rollout client's turns a second are measured (``scripts/bench_scale client``), bytes follow from the shapes.

Source of the roofline: Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009: an operation takes the longer of
its computing and its reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpo.devices.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU and what connects it; the default is an H100 SXM with a 400 Gbit/s port.

    Attributes:
        flops: Of bf16 products a second (data sheet, dense).
        bandwidth: Bytes of its memory read a second.
        share: Of both that is reached (assumed).
        network: Bytes a second to other machines.
        files: Bytes a second that the shared file system gives all readers together (assumed).
    """

    flops: float = 989e12
    bandwidth: float = 3.35e12
    share: float = 0.4
    network: float = 50e9
    files: float = 5e9


@dataclass(frozen=True, slots=True)
class Work:
    """One step. The default is about what EmailSearch-v0 asks at its full size.

    Attributes:
        episodes: Groups times their size.
        turns: Of an episode.
        prompt: Tokens before the first turn.
        action: Tokens that are sampled in a turn.
        observation: Tokens of an answer of the env.
        rank: Of the adapter.
        places: Episodes that one server plays at once.
        turns_per_second: At which the rollout client is full.
    """

    episodes: int = 128
    turns: int = 6
    prompt: int = 600
    action: int = 120
    observation: int = 400
    rank: int = 16
    places: int = 64
    turns_per_second: float = 300.0

    @property
    def tokens(self) -> int:
        """Of an episode at its end."""
        return self.prompt + self.turns * (self.action + self.observation)


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of a step's parts; ``total`` without overlap, ``overlapped`` with it."""

    servers: int
    learners: int
    sample: float
    client: float
    learn: float
    publish: float

    @property
    def rollout(self) -> float:
        """The servers and the client work at the same time."""
        return max(self.sample, self.client)

    @property
    def total(self) -> float:
        """One part after the other."""
        return self.rollout + self.learn + self.publish

    @property
    def overlapped(self) -> float:
        """While one step is learned, the next is played (``--max-staleness 1``)."""
        return max(self.rollout, self.learn) + self.publish

    @property
    def fullest(self) -> str:
        """The part that takes longest."""
        return max(("sample", "client", "learn", "publish"), key=lambda part: getattr(self, part))


def turn_seconds(shape: ModelShape, work: Work, device: Device, episodes: int) -> float:
    """Of a turn of ``episodes`` at once on one server: the observation is read in, then the action sampled.

    A sampled token reads the weights once for all episodes, and each one's keys and values.
    """
    flops, bandwidth = device.flops * device.share, device.bandwidth * device.share
    read_in = work.prompt / work.turns + work.observation
    prefill = 2 * shape.parameters * read_in * episodes / flops
    read = 2 * shape.parameters + episodes * shape.kv_bytes("bfloat16") * work.tokens / 2
    compute = 2 * shape.parameters * episodes
    return prefill + work.action * max(read / bandwidth, compute / flops)


def sample_seconds(shape: ModelShape, work: Work, device: Device, servers: int) -> float:
    """Of all episodes. More servers than episodes need do not shorten an episode."""
    share = math.ceil(work.episodes / servers)
    waves = math.ceil(share / work.places)
    return waves * work.turns * turn_seconds(shape, work, device, math.ceil(share / waves))


def learn_seconds(shape: ModelShape, work: Work, device: Device, learners: int) -> float:
    """Of one update: the learners' computing, then the sum of the adapter's gradients over the network.

    4 operations a weight and token (forward, and backward to the inputs alone), 2 more because blocks are computed
    again (gradient checkpointing), and causal attention.
    """
    attention = 3 * 2 * shape.layers * shape.query_width * work.tokens
    tokens = math.ceil(work.episodes / learners) * work.tokens  # rows are not cut
    compute = tokens * (6 * shape.parameters + attention) / (device.flops * device.share)
    ring = 2 * 4 * shape.adapter_parameters(work.rank) * (1 - 1 / learners) / device.network
    return compute + ring


def step(shape: ModelShape, work: Work, device: Device, gpus: int) -> Step:
    """The division of the GPUs into servers and learners that overlaps best.

    Args:
        shape: Of the model.
        work: Of a step.
        device: What each GPU is.
        gpus: At least one. With one, server and learner share it and cannot overlap.
    """
    client = work.episodes * work.turns / work.turns_per_second

    def divided(servers: int, learners: int) -> Step:
        publish = 4 * shape.adapter_parameters(work.rank) * servers / device.files
        return Step(
            servers,
            learners,
            sample_seconds(shape, work, device, servers),
            client,
            learn_seconds(shape, work, device, learners),
            publish,
        )

    if gpus == 1:
        return divided(1, 1)
    return min((divided(servers, gpus - servers) for servers in range(1, gpus)), key=lambda found: found.overlapped)
