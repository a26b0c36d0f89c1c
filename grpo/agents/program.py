"""An agent that is a program, a black box: ``cmd:my-agent {question}``.

The program finds in its environment

    AGENT_TASK_FILE    JSON: instructions, question, tools (OpenAI schemas)
    AGENT_MCP_URL      the env's tools, MCP over streamable HTTP
    AGENT_ANSWER_FILE  where it may write its answer
    AGENT_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY    the model, where there is one; in Anthropic's form
    ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY           the same one
    NO_PROXY, no_proxy                              the user's, and this machine, where the URLs above lead

and may answer with the tool ``return_final_answer``. Else its answer is what it wrote to that file, else all that it
prints. Words of the command are split as a shell would and nothing is run by a shell; ``{question}`` and
``{task_file}`` are replaced. When its time is up it is killed with its whole process group.
"""

import asyncio
import json
import os
import shlex
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Self

from grpo.agents.endpoint import Endpoint
from grpo.agents.interpreter import SECRET_PREFIX
from grpo.agents.upstream import Upstream
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from grpo.types import Answer
from judges.common.files import scratch_folder
from judges.common.loopback import without_proxy_to_loopback

MAX_OUTPUT_BYTES = 1 << 20
"""What is kept of each output, from its end."""


class ProgramAgent(Agent):
    """Runs the program once for each episode.

    Args:
        command: The command's words as one string.
        upstream: The model it may use.

    Raises:
        EvaluationError: The command is empty, its quotes do not match, or there is no such program.
    """

    def __init__(self, command: str, upstream: Upstream | None):
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise EvaluationError(f"cmd:{command}: {error}") from error
        if not self.words:
            raise EvaluationError("cmd: needs a command, for example 'cmd:python my_agent.py {question}'")
        if "{" not in self.words[0] and shutil.which(self.words[0]) is None:
            raise EvaluationError(
                f"cmd: there is no program {self.words[0]!r} that can be run; give its path, or one that is on PATH"
            )
        self.env_thread = self._thread = EnvThread()
        self.endpoint = Endpoint(self._thread, upstream, with_mcp=True)

    async def __aenter__(self) -> Self:
        self.endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.endpoint.stop)
        self._thread.close()

    async def run(self, play: Play) -> None:
        """Run the program to its end, and take what it wrote as the answer if it gave none by the tool."""
        with self._thread.admit(play) as token, scratch_folder("grpo-program") as folder:
            task, file, model = play.agent_task, folder / "task.json", self.endpoint.model(token)
            answer_file = folder / "answer"
            content = {"instructions": task.instructions, "question": task.question, "tools": play.episode.tools}
            file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
            environment = {k: v for k, v in os.environ.items() if not k.startswith(SECRET_PREFIX)}
            environment |= {"AGENT_TASK_FILE": str(file), "AGENT_MCP_URL": f"{self.endpoint.url(token)}/mcp"}
            environment |= {"AGENT_ANSWER_FILE": str(answer_file)}
            if self.endpoint.upstream:
                environment |= {"AGENT_MODEL": model.name, "OPENAI_MODEL": model.name}
                environment |= {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": model.api_key}
                environment |= {"ANTHROPIC_BASE_URL": self.endpoint.url(token), "ANTHROPIC_API_KEY": model.api_key}
            environment = without_proxy_to_loopback(environment)
            words = [w.replace("{question}", task.question).replace("{task_file}", str(file)) for w in self.words]
            status, output, errors = await _run(words, environment, folder)
            written = _end_of(answer_file) if answer_file.exists() else ""
        said = (written or output).strip()
        if status != 0 and not play.is_over:
            last = [*output.strip().splitlines()[-1:], *errors.strip().splitlines()[-1:]] or ["it said nothing"]
            raise ProgramFailed(f"exit status {status}: {last[-1][:300]}")
        await play.seat.run(play.conclude, Answer(said) if said else None)


class ProgramFailed(RuntimeError):
    """The program ended with another status than 0."""


async def _run(words: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
    """Exit status and the ends of both outputs. These are files: a child that outlives the program holds nothing up."""
    output, errors = folder / "output", folder / "errors"
    with output.open("wb") as said, errors.open("wb") as complained:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
                start_new_session=True,
            )
        except OSError as error:
            raise EvaluationError(f"the program {words[0]!r} cannot be started: {error}") from error
    try:
        status = await process.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return status, _end_of(output), _end_of(errors)


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MAX_OUTPUT_BYTES))
        return file.read().decode(errors="replace")
