"""Makes faults in real runs, each at three places in time, and writes a table of what a user sees of them.

Training samples from a real vLLM, behind a proxy that fails as it is told, or from one of its own; so do the agent that
is trained and the one that is evaluated. A row is wrong where nothing is said within a minute, where the same command
with --resume does not go on to the end, or where processes, folders or semaphores are left. Exit status 1 then.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from grpo.machine.hardware import share_cores
from grpo.machine.models import EMBEDDED_MODEL, resolve_model
from grpo.machine.probe import computing_dtype
from grpo.serving.server import KEY_VARIABLE
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from judges.common.files import read_jsonl
from tests.faults.parts import FILE_VARIABLE
from tests.faults.proxy import Proxy
from tests.support.judge_server import JudgeServer, score_by
from tests.support.sessions import processes_in, sessions_below

ENV = "tests.faults.parts:Faulty-v0"
STEPS, EPISODES = 3, 12
SIZES = (
    *("rollout.groups_per_step=2", "rollout.group_size=2", "rollout.max_turn_tokens=12", "rollout.max_tokens=512"),
    *("warm_start.steps=3", "warm_start.policy=oracle", "eval.scenarios=2", "eval.baselines=none", "loss.max_gap=5"),
)
SAID_SECONDS, LIMIT_SECONDS = 60.0, 600.0
SMALL_DISK = 2 * 2**30
A_WHILE = 15.0
LONGER = 60.0
"""A fault that lasts so long is named."""


@dataclass
class World:
    """What a fault is made in.

    Attributes:
        folder: Of the run or the evaluation.
        process: The command.
        proxy: Before the server that samples.
        judge: Before the judge.
        file: What `tests.faults.parts` does.
    """

    folder: Path
    process: subprocess.Popen[str]
    proxy: Proxy
    judge: Proxy
    file: Path

    def for_a_while(self, fault: str, seconds: float = A_WHILE, at: str = "proxy") -> None:
        """Have a proxy fail for some seconds."""
        door: Proxy = getattr(self, at)
        door.fault = fault
        time.sleep(seconds)
        door.fault = ""

    def part(self, what: str, seconds: float | None = None) -> None:
        """Have a part do something; hang for so long."""
        self.file.write_text(what)
        if seconds is not None:
            time.sleep(seconds)
            self.file.unlink(missing_ok=True)

    def servers(self, word: str) -> list[int]:
        """The processes of the run's own vLLM whose command line has a word; the engine has its title."""
        sessions = set(sessions_below(self.process.pid)) - {self.process.pid}
        return [pid for pid, command in processes_in(*sessions).items() if word in command]

    def signal_server(self, word: str, number: int) -> None:
        """Send a signal to these."""
        for pid in self.servers(word):
            os.kill(pid, number)


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: For the table.
        make: Makes it; returns when it is over.
        says: What a user must see of it.
        own: Whether the run has a vLLM of its own.
        more: Arguments of the command.
        ends: Whether the command may end by it.
        mend: What the user does before the same command goes on.
        refused: Whether the same command is tried before that, too, and must say what is wrong.
        places: How many lines the record of the run has when it is made.
    """

    name: str
    make: Callable[[World], object]
    says: str
    own: bool = False
    more: tuple[str, ...] = ()
    ends: bool = False
    mend: Callable[[World], object] = lambda world: None
    refused: bool = False
    places: tuple[int, ...] = (0, 1, 2)


def _kill(number: int) -> Callable[[World], object]:
    return lambda world: world.process.send_signal(number)


def _move(world: World) -> None:
    world.folder.rename(world.folder.with_name("elsewhere"))


def _move_back(world: World) -> None:
    shutil.rmtree(world.folder, ignore_errors=True)
    world.folder.with_name("elsewhere").rename(world.folder)


def _damage(pattern: str) -> Callable[[World], object]:
    def damage(world: World) -> None:
        world.process.kill()
        world.process.wait()
        for path in world.folder.glob(pattern):
            path.write_bytes(b"\xff\x00\n" + path.read_bytes()[: -len(path.read_bytes()) // 3])

    return damage


def _fill(world: World) -> None:
    """Leave no room where the run writes."""
    stat = os.statvfs(world.folder)
    ballast = world.folder.parent / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        for _ in range(stat.f_bavail * stat.f_frsize // 2**16 + 64):
            file.write(bytes(2**16))


def _make_room(world: World) -> None:
    (world.folder.parent / "ballast").unlink(missing_ok=True)


WORKER = ("--set", "rollout.env_workers=1")
REWARD = ("--reward", "tests.faults.parts:reward")
NAMED = r"has not moved for"
OF_ENV = r"env: .*has not moved for"
ENDED = r"has ended without a word|Killed|Stopped|Resume|resume"

TRAINING = [
    Fault("the server answers nothing for a minute", lambda w: w.for_a_while("hang", LONGER), NAMED),
    Fault("the server answers 500 for 15 s", lambda w: w.for_a_while("500"), r"is out|answers again|500"),
    Fault("the server drops connections for 15 s", lambda w: w.for_a_while("drop"), r"is out|answers again|does not answer"),
    Fault("the server answers a page for 15 s", lambda w: w.for_a_while("garbage"), r"no completion", ends=True),
    Fault("the server refuses the key", lambda w: w.for_a_while("401", 30.0), r"401", ends=True),
    Fault("vLLM is killed", lambda w: w.signal_server("vllm_main", signal.SIGKILL), r"restarted", own=True),
    Fault("vLLM's engine is killed", lambda w: w.signal_server("EngineCore", signal.SIGKILL), r"restarted", own=True),
    Fault("vLLM's engine stands still", lambda w: w.signal_server("EngineCore", signal.SIGSTOP), NAMED, own=True),
    Fault("SIGKILL for the command", _kill(signal.SIGKILL), ENDED, own=True, ends=True),
    Fault("SIGTERM", _kill(signal.SIGTERM), ENDED, own=True, ends=True),
    Fault("Ctrl-C", _kill(signal.SIGINT), ENDED, own=True, ends=True),
    Fault("the command crashes (SIGSEGV)", _kill(signal.SIGSEGV), r"Segmentation fault|without a word", own=True, ends=True),
    Fault("a step of the env hangs for a minute", lambda w: w.part("env hang", LONGER), OF_ENV),
    Fault("a reset of the env hangs for a minute", lambda w: w.part("reset hang", LONGER), OF_ENV),
    Fault("a step of the env raises", lambda w: w.part("env raise"), r"a fault of the env", ends=True),
    Fault("the env exits in a worker", lambda w: w.part("env die"), r"ended|lost|failed|worker", more=WORKER, ends=True),
    Fault("the env crashes in a worker", lambda w: w.part("env crash"), r"ended|lost|failed|worker", more=WORKER, ends=True),
    Fault("the env exits in the command", lambda w: w.part("env die"), r"without a word", ends=True),
    Fault("the env crashes in the command", lambda w: w.part("env crash"), r"Segmentation fault|without a word", ends=True),
    Fault("the reward function hangs for a minute", lambda w: w.part("reward hang", LONGER), r"reward function: .*has not moved", more=REWARD),
    Fault("the reward function raises", lambda w: w.part("reward raise"), r"a fault of the reward", more=REWARD, ends=True),
    Fault("the reward function exits", lambda w: w.part("reward exit"), r"raised SystemExit", more=REWARD, ends=True),
    Fault("the reward function ends the process", lambda w: w.part("reward die"), r"without a word", more=REWARD, ends=True),
    Fault("the judge answers nothing for a minute", lambda w: w.for_a_while("hang", LONGER, "judge"), r"judge: .*has not moved", more=("judge",)),
    Fault("the judge answers 500 for 15 s", lambda w: w.for_a_while("500", at="judge"), r"", more=("judge",), ends=True),
    Fault("the judge answers a page for 15 s", lambda w: w.for_a_while("garbage", at="judge"), r"", more=("judge",), ends=True),
    Fault("the folder is moved", _move, r"was removed or moved", ends=True, mend=_move_back),
    Fault("the metrics are damaged, after a kill", _damage("metrics.jsonl"), r"left out", ends=True, places=(1, 2)),
    Fault("the episodes are damaged, after a kill", _damage("trajectories/*.jsonl"), r"", ends=True, places=(1, 2)),
    Fault("evaluations are damaged, after a kill", _damage("eval/*"), r"left out", ends=True, places=(1, 2)),
    Fault("the newest state is damaged, after a kill", _damage("checkpoints/step-*/*.pt"), r"damaged|checksum", ends=True, places=(2,), refused=True, mend=lambda w: shutil.rmtree(w.folder / "checkpoints")),
    Fault("the disk is full", _fill, r"No space left|disk", ends=True, mend=_make_room),
]  # fmt: skip

AGENT = ("--agent", "tests.faults.parts:agent")
APART = (*AGENT, "--agent-python", sys.executable)
OF_AN_AGENT = [
    Fault("the agent raises", lambda w: w.part("agent raise"), r"a fault of the agent", more=AGENT),
    Fault("the agent hangs for a minute", lambda w: w.part("agent hang", LONGER), r"agent: .*has not moved", more=AGENT),
    Fault("Ctrl-C while an agent plays", _kill(signal.SIGINT), ENDED, more=AGENT, ends=True),
    Fault("the agent ends its interpreter", lambda w: w.part("agent die"), r"ended|interpreter|lost|failed", more=APART, ends=True),
    Fault("the agent crashes its interpreter", lambda w: w.part("agent crash"), r"ended|interpreter|lost|failed", more=APART, ends=True),
    Fault("the server behind the agent answers nothing", lambda w: w.for_a_while("hang", LONGER), NAMED, more=AGENT),
    Fault("the server behind the agent drops connections", lambda w: w.for_a_while("drop"), r"is out|answer", more=AGENT),
]  # fmt: skip

EVALUATION = [
    Fault("the model answers nothing for a minute", lambda w: w.for_a_while("hang", LONGER), NAMED, ends=True),
    Fault("the model refuses the key", lambda w: w.for_a_while("401", 30.0), r"401", ends=True),
    Fault("the model answers 500", lambda w: w.for_a_while("500", 100.0), r"500", ends=True),
    Fault("the model drops connections for 15 s", lambda w: w.for_a_while("drop"), r"does not answer|failed|Disconnected", ends=True),
    Fault("SIGKILL for the evaluation", _kill(signal.SIGKILL), ENDED, ends=True),
    Fault("Ctrl-C in the evaluation", _kill(signal.SIGINT), ENDED, ends=True),
    Fault("an env of the evaluation hangs for a minute", lambda w: w.part("env hang", LONGER), OF_ENV, ends=True),
    Fault("the agent of the evaluation crashes", lambda w: w.part("agent raise"), r"agent_crash", ends=True),
    Fault("the folder of the evaluation is moved", _move, r"was removed or moved", ends=True, mend=_move_back),
    Fault("the disk of the evaluation is full", _fill, r"No space left|disk", ends=True, mend=_make_room),
]  # fmt: skip


@dataclass
class Row:
    """What came of a fault at one place."""

    said: float | None = None
    words: str = ""
    status: int | None = None
    kept: int = 0
    again: int | None = None
    left: list[str] = field(default_factory=list)

    def wrong(self, fault: Fault) -> list[str]:
        """What should not be."""
        found = [f"left: {', '.join(self.left)}"] if self.left else []
        if fault.says and (self.said is None or self.said > SAID_SECONDS):
            found.append("nothing was said within a minute")
        if self.status and not fault.ends:
            found.append(f"it ended with status {self.status}")
        if self.again:
            found.append(f"--resume ended with status {self.again}")
        return found


class Campaign:
    """Commands against one server; see the module.

    Args:
        server: What samples.
        root: Folder of all runs, on a small file system of its own where that can be had.
    """

    def __init__(self, server: VllmServer, root: Path, stack: ExitStack):
        self.server, self.root = server, root
        self.proxy = stack.enter_context(Proxy(server.url))
        self.judge = stack.enter_context(Proxy(stack.enter_context(JudgeServer(score_by(_by_length))).url))
        self._number = 0

    def run(self, fault: Fault, place: int, kind: str) -> Row:
        """Make a fault when the record has ``place`` lines."""
        self._number += 1
        folder = self.root / f"run-{self._number}"
        file, output = self.root / "fault", self.root / f"output-{self._number}"
        file.unlink(missing_ok=True)
        command = self.evaluate(folder) if kind == "evaluation" else self.train(folder, fault)
        before = _left_behind()
        row, lines = Row(), list[tuple[float, str]]()
        world = World(folder, self._start(command, file, lines), self.proxy, self.judge, file)
        record = folder / ("results.jsonl" if kind == "evaluation" else "metrics.jsonl")
        begins = "eval/before-sampled.json" if kind != "evaluation" else "config.json"
        sessions = (world.process.pid,)
        while world.process.poll() is None:
            if (folder / begins).exists() and _lines(record) >= place * (4 if kind == "evaluation" else 1):
                sessions = sessions_below(world.process.pid)
                break
            time.sleep(0.05)
        made = time.monotonic()
        fault.make(world)
        row.status = _wait(world.process)
        self._found(row, fault, lines, made)
        row.kept = _lines(record)
        file.unlink(missing_ok=True)
        if row.status:
            count = len(lines)
            if fault.refused and not _wait(self._start([*command, "--resume"], file, lines)):
                row.left.append("it was not refused")
            fault.mend(world)
            again = self._start([*command, "--resume"], file, lines)
            sessions = (*sessions, again.pid)
            row.again = _wait(again)
            if row.said is None:  # told where it is met
                self._found(row, fault, lines, lines[count][0] if lines[count:] else made)
        output.write_text("".join(line for _, line in lines))
        deadline = time.monotonic() + 15.0
        while time.monotonic() < deadline and (processes_in(*sessions) or _left_behind() - before):
            time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)
        row.left += [*processes_in(*sessions).values(), *(_left_behind() - before)]
        return row

    def _found(self, row: Row, fault: Fault, lines: list[tuple[float, str]], made: float) -> None:
        time.sleep(0.3)  # its reader
        for at, line in lines:
            if at >= made and re.search(fault.says or "$^", line):
                row.said, row.words = at - made, line.strip()
                return

    def _start(self, command: list[str], file: Path, lines: list[tuple[float, str]]) -> subprocess.Popen[str]:
        environment = os.environ | {FILE_VARIABLE: str(file), KEY_VARIABLE: self.server.key}
        environment |= {"OPENAI_API_KEY": self.server.key, "PYTHONPATH": os.getcwd()}
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append((time.monotonic(), line))

        threading.Thread(target=read, daemon=True).start()
        return process

    def train(self, folder: Path, fault: Fault) -> list[str]:
        """The command of a run."""
        more = list(fault.more)
        if more == ["judge"]:
            more = ["--reward", "ruler", "--judge-model", "openai/m", "--judge-api-base", f"{self.judge.url}/v1"]
        server = [] if fault.own else ["--server", self.proxy.url]
        sets = [word for value in SIZES for word in ("--set", value)]
        if "--agent" in more:
            sets += ["--set", "warm_start.steps=0"]
        command = [sys.executable, "-m", "grpo", "train", "--env", ENV, "--model", EMBEDDED_MODEL, "--cpu"]
        return [*command, "--steps", str(STEPS), "--run-dir", str(folder), *sets, *server, *more]

    def evaluate(self, folder: Path) -> list[str]:
        """The command of an evaluation."""
        agent = [*AGENT, "--model", f"openai:{self.server.model}@{self.proxy.url}/v1"]
        command = [sys.executable, "-m", "grpo", "eval", "--env", ENV, *agent, "--out", str(folder)]
        return [*command, "-k", str(EPISODES // 4), "--concurrency", "1"]


def _by_length(messages: list[dict[str, object]]) -> tuple[float, str]:
    return min(1.0, len(str(messages)) / 1000), "longer is better"


def _lines(path: Path) -> int:
    try:
        return len(read_jsonl(path, []))
    except OSError:
        return 0


def _wait(process: subprocess.Popen[str]) -> int:
    try:
        return process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _left_behind() -> set[str]:
    """Folders and semaphores that commands of ours may leave; a folder that nobody uses goes with the next command."""
    semaphores = {str(path) for path in Path("/dev/shm").glob("sem.mp-*")}
    return semaphores | {str(path) for path in Path(tempfile.gettempdir()).glob("grpo-*")}


def rows(campaign: Campaign, only: str, places: int) -> Iterator[tuple[str, Fault, int, Row]]:
    """Each fault at each place."""
    for kind, faults in (("training", TRAINING), ("agent", OF_AN_AGENT), ("evaluation", EVALUATION)):
        for fault in faults:
            stat = os.statvfs(campaign.root)
            if fault.make is _fill and stat.f_blocks * stat.f_frsize > SMALL_DISK:
                continue  # nobody wants his disk filled
            if re.search(only, f"{kind}: {fault.name}"):
                for place in fault.places[:places]:
                    yield kind, fault, place, campaign.run(fault, place, kind)


def main() -> None:
    """Run it, print the table, and end with 1 where a row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="an expression that the name of a fault must contain")
    parser.add_argument("--places", type=int, default=3, help="how many places in time")
    parser.add_argument("--folder", type=Path, help="where runs lie: a small file system, for those with a full disk")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores Ctrl-C
    share_cores()
    model = resolve_model(EMBEDDED_MODEL).path
    dtype = computing_dtype("auto", "cpu", model).dtype
    options = ServerOptions(dtype=dtype, max_model_len=512, kv_cache_gib=0.5, max_loras=4)
    bad = 0
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        server = stack.enter_context(VllmServer(model, Path(tempfile.gettempdir()) / "faults-server.log", options))
        campaign = Campaign(server, folder, stack)
        print(
            "| | fault | place | what is said | after | status | kept | --resume | |\n|---|---|---|---|---|---|---|---|---|"
        )
        for kind, fault, place, row in rows(campaign, arguments.only, arguments.places):
            wrong = row.wrong(fault)
            bad += bool(wrong)
            said = f"{row.said:.0f} s" if row.said is not None else ""
            again = "" if row.again is None else "goes on" if row.again == 0 else f"status {row.again}"
            cells = (
                kind,
                fault.name,
                place,
                row.words[:160].replace("|", "/"),
                said,
                row.status,
                row.kept,
                again,
                "; ".join(wrong),
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print(f"{bad} rows are wrong" if bad else "All as it should be")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
