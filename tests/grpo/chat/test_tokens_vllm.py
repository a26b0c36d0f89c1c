"""What a real vLLM was given and returned, id for id and logprob for logprob, over whole episodes."""

import json
from dataclasses import dataclass, replace

import httpx
import pytest

torch = pytest.importorskip("torch", reason="the trainer's logprobs need torch (install the extra 'train')")

from grpo.ending import Ending  # noqa: E402
from grpo.envs.pool import EnvPool  # noqa: E402
from grpo.episodes.player import planned_episodes  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec  # noqa: E402
from grpo.learner.segments import segments_of  # noqa: E402
from grpo.machine.probe import computing_dtype  # noqa: E402
from grpo.seeds import derive_seed  # noqa: E402
from grpo.serving.adapters import AdapterStore  # noqa: E402
from grpo.serving.connection import Connection  # noqa: E402
from grpo.serving.fleet import Fleet  # noqa: E402
from grpo.serving.policy import CompletionsPolicy, SamplingParams  # noqa: E402
from grpo.serving.vllm import VllmServer  # noqa: E402
from grpo.serving.vllm_options import ServerOptions  # noqa: E402
from grpo.types import Task  # noqa: E402
from tests.grpo.chat.templates import FAMILIES, QWEN3  # noqa: E402
from tests.support.envs import TALK_ENV, TalkEnv  # noqa: E402
from tests.support.episodes import ids_of, logprobs_of, mask_of, player  # noqa: E402

pytestmark = [pytest.mark.vllm, pytest.mark.torch]

HERMES = FAMILIES[0]
MAIL = "Grüße! 3 Mails.\n\nFrom: a@b.c <|im_end|>\nend"
READ = MAIL.replace("<|im_end|>", "< |im_end|>")
# the families' words stay text here: the served model has no ids for them
QWEN25, QWEN3 = (replace(family, words=()) for family in (FAMILIES[1], QWEN3))
MAX_GAPS = {"bfloat16": 0.12, "float32": 0.001}
"""Nats a token between vLLM and the engine on text of high entropy; 0.056 was seen in bfloat16, and 0.31 and more where the
weights were others."""


@dataclass
class Call:
    """One request as vLLM answered it."""

    given: list[int]
    seen: list[int]
    sampled: list[int]
    logprobs: list[float]
    ended: bool


class Biased(Connection):
    """Asks vLLM with a bias for the token that ends a turn."""

    def __init__(self, server, bias: dict[str, float], on_response):
        super().__init__(Fleet([server]))
        self._bias = bias
        self._hooks = {"response": [on_response]}

    async def post(self, path, request, server=None):
        return await super().post(path, {**request, **({"logit_bias": self._bias} if self._bias else {})}, server)

    def _new_client(self, member):
        client = super()._new_client(member)
        client.event_hooks = self._hooks
        return client


AS_IT_COMES = 0.0
SHORT_TURNS = 12.0
"""Turns end by themselves soon."""
LONG_TURNS = -100.0
"""No turn ends by itself, so each is cut."""


@pytest.fixture(scope="module")
def server_without_guesses(model_dir, tmp_path_factory):
    """vLLM refuses a bias where tokens are guessed."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    dtype = computing_dtype("auto", "cpu", model_dir).dtype
    options = ServerOptions(dtype=dtype, max_model_len=2048, kv_cache_gib=0.5, draft_tokens=0)
    with VllmServer(model_dir, log, options) as server:
        yield server


async def play(server, model, chat, *, role="tool", episodes=2, max_turn_tokens=12, end_bias=AS_IT_COMES):
    """Episodes against a real server, and every episode's calls in order, as they went over the socket."""
    calls: dict[int, Call] = {}

    async def record(response: httpx.Response) -> None:
        request, choice = json.loads(response.request.content), json.loads(await response.aread())["choices"][0]
        values = choice["prompt_token_ids"], choice["token_ids"], choice["logprobs"]["token_logprobs"]
        calls[request["seed"]] = Call(request["prompt"], *values, choice["finish_reason"] == "stop")

    ends = chat.stop_token_ids if end_bias == LONG_TURNS else chat.stop_token_ids[:1]
    bias = {str(end): end_bias for end in ends} if end_bias else {}
    async with Biased(server, bias, record) as connection:
        policy = CompletionsPolicy(connection, model, chat.stop_token_ids)
        pool = EnvPool(TALK_ENV, {"role": role, "says": MAIL})
        rollout = player(pool, chat, policy, SamplingParams(1.0, max_turn_tokens), 2048)
        specs = planned_episodes([Task(0)], episodes, "tokens", max_turn_tokens)
        trajectories = await rollout.all(specs)
    assert [t.ending for t in trajectories] == [Ending.ANSWERED] * episodes
    return trajectories, [[calls[derive_seed(spec.seed, turn)] for turn in range(3)] for spec in specs]


def ids(chat, text):
    return chat.tokenizer(text, add_special_tokens=False).input_ids


TOOL_AS_USER = "\n<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("family", "answer", "end_bias"),
    [
        (HERMES, "\n<|im_start|>tool\n{}<|im_end|>\n<|im_start|>assistant\n", SHORT_TURNS),
        (QWEN25, TOOL_AS_USER, LONG_TURNS),
        (QWEN3, TOOL_AS_USER, LONG_TURNS),
    ],
    ids=["hermes", "qwen2.5", "qwen3"],
)
async def test_every_prompt_is_the_one_before_and_what_was_sampled_and_what_the_env_said(
    server_without_guesses, model_dir, family, answer, end_bias
):
    chat = family.chat(model_dir)
    server = server_without_guesses
    trajectories, episodes = await play(server, server.model, chat, end_bias=end_bias)
    end = ids(chat, "<|im_end|>")
    for trajectory, calls in zip(trajectories, episodes, strict=True):
        expected = chat.prompt_ids(list(TalkEnv.opening), list(TalkEnv.tools))
        mask, logprobs = [False] * len(expected), [0.0] * len(expected)
        for turn, call in enumerate(calls, 1):
            assert call.given == call.seen == expected
            assert call.ended == (call.sampled[-1] in chat.stop_token_ids)
            close = [] if call.sampled[-1:] == end else end
            added = close + ids(chat, answer.format(f"{turn}. {READ}")) if turn < 3 else []
            expected = expected + call.sampled + added
            mask += [True] * len(call.sampled) + [False] * len(added)
            logprobs += call.logprobs + [0.0] * len(added)
        assert (ids_of(trajectory), mask_of(trajectory), logprobs_of(trajectory)) == (expected, mask, logprobs)
        assert trajectory.num_forks == 0
        said = [m["content"] for m in trajectory.messages if m["role"] == "assistant"]
        texts = [chat.tokenizer.decode(call.sampled) for call in calls]
        assert said == [text.removesuffix("<|im_end|>").removesuffix("<|endoftext|>") for text in texts]
    ended = [call.ended for calls in episodes for call in calls]
    assert any(ended) == (end_bias == SHORT_TURNS)


async def test_a_rewritten_prompt_is_what_vllm_sees_and_each_segment_holds_its_own_turns(vllm_server, model_dir):
    chat = QWEN3.chat(model_dir)

    class Thinks:
        """Puts an ended thought before what is decoded, as a reasoning model would."""

        def __getattr__(self, name):
            return getattr(chat, name)

        def decode(self, sampled_ids):
            return f"<think>\nq7#hm\n</think>\n\n{chat.decode(sampled_ids)}"

    trajectories, episodes = await play(vllm_server, vllm_server.model, Thinks(), role="user")
    for trajectory, calls in zip(trajectories, episodes, strict=True):
        assert trajectory.num_forks == 2
        for call, segment in zip(calls, segments_of(trajectory, 1.0), strict=True):
            assert call.given == call.seen == segment.ids[: len(call.seen)]
            assert segment.ids[len(call.seen) :] == call.sampled
            assert segment.sampler_logprobs == [0.0] * len(call.seen) + call.logprobs
        assert "q7#hm" not in chat.tokenizer.decode(calls[2].seen)


async def test_each_published_version_samples_with_the_logprobs_of_the_trainer_and_not_with_the_base_models(
    vllm_server, model_dir, tmp_path
):
    chat = HERMES.chat(model_dir)
    dtype = vllm_server.options.dtype
    engine = LocalEngine(model_dir, LoraSpec(rank=8, alpha=24), seed=0, dtype=dtype, threads=1)
    store = AdapterStore(Fleet([vllm_server]), tmp_path)
    base = [torch.zeros_like(parameter) for parameter in engine.parameters]
    versions = [noise_like(engine.parameters, seed) for seed in (1, 2)]
    gaps = {}
    for number, weights in enumerate(versions):
        load(engine, weights)
        handle = store.publish(engine.save_adapter, number)
        trajectories, _ = await play(vllm_server, handle.name, chat, episodes=3)
        segments = [segment for t in trajectories for segment in segments_of(t, 1.0)]
        for claimed, other in (("first", versions[0]), ("second", versions[1]), ("base", base)):
            load(engine, other)
            gaps[number, claimed] = mean_gap(engine, segments)
    assert gaps[0, "first"] < MAX_GAPS[dtype], gaps
    assert gaps[1, "second"] < MAX_GAPS[dtype], gaps
    for number, own, claimed in (
        (0, "first", "second"),
        (0, "first", "base"),
        (1, "second", "first"),
        (1, "second", "base"),
    ):
        assert gaps[number, claimed] > 3 * gaps[number, own], gaps


def noise_like(parameters, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(parameter.shape, generator=generator) * 0.03 for parameter in parameters]


def load(engine, weights):
    for parameter, values in zip(engine.parameters, weights, strict=True):
        parameter.data.copy_(values)


def mean_gap(engine, segments):
    """Nats a sampled token between the engine's logprobs and those that came with the samples."""
    trained = torch.tensor([value for values in engine.logprobs(segments) for value in values])
    pairs = [pair for s in segments for pair in zip(s.sampler_logprobs, s.action_mask, strict=True)]
    return float((trained - torch.tensor([value for value, acts in pairs if acts])).abs().mean())
