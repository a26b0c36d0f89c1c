"""``grpo-play``: one episode by hand, with the same messages, tools and rewards that a policy gets."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field

from grpo.cli.common import explained
from grpo.cli.options import setting_options
from grpo.config import EnvSettings, checked, settings_of
from grpo.errors import GrpoError
from judges.common.tool_calls import call_action

if TYPE_CHECKING:
    from grpo.envs.message_env import MessageEnv, Observation

HELP = "NAME(argument=value, ...) calls a tool; any other line goes to the env as it is. help shows this, quit ends."


class PlayConfig(EnvSettings):
    """What is played."""

    env: str = Field(
        default="EmailSearch-v0",
        description="registered Gymnasium env id, module:id, or openenv:URL, mcp:COMMAND, verifiers:NAME",
    )
    split: str = Field(default="test", description="split of the scenarios, where the env has splits")
    scenario: str | None = Field(
        default=None, description="the scenario to play, where the env names them; without it the seed draws one"
    )
    seed: int = Field(default=0, description="of the episode, and of the choice of a scenario")


class NotACallError(GrpoError, ValueError):
    """A line begins like a call of one of the tools, but cannot be read as one."""


@click.command(
    short_help="Play one episode by hand.", epilog="Example: grpo-play --env EmailSearch-v0 --scenario test-01-007"
)
@setting_options(PlayConfig, *settings_of(PlayConfig), tasks=True)
@explained(lambda _options: "The episode was not saved.")
def play(given: dict[str, Any]) -> None:
    """Play one episode by hand: see what a policy sees, and how its reward comes about.

    Each line is an action: a call as in Python, such as search_inbox(keywords=["laptops"]), or any text that a policy
    could write, but for help, quit and exit. It is also how to try an env of your own.
    """
    from grpo.envs.message_env import MessageEnv
    from grpo.envs.registry import with_split
    from grpo.machine.user_code import import_user_module
    from grpo.types import Task

    config = checked(PlayConfig, given)
    if config.env_import is not None:
        import_user_module(config.env_import)
    played = MessageEnv(config.env, with_split(config.env, config.env_kwargs, config.split))
    try:
        names, wanted, seed = played.scenario_ids(), config.scenario, config.seed
        if wanted is not None and wanted not in (names or ()):
            hint = f", for example {names[0]}" if names else " to name"
            raise GrpoError(f"{config.env} has no scenario {wanted!r}{hint}")
        task = Task(seed, wanted or (names[seed % len(names)] if names else None))
        _play(played, played.reset(task), task.key)
    finally:
        played.close()


def _play(env: MessageEnv, observation: Observation, name: str) -> None:
    click.echo(_style(f"{env.env_id}, {name}", bold=True))
    _show(observation)
    for tool in observation.tools:
        click.echo(f"  {_signature(tool['function'])}")
    for line in (*env.remarks(), HELP):
        click.echo(line)
    tools = [tool["function"] for tool in observation.tools]
    total, steps = observation.reward, 0
    while not (observation.terminated or observation.truncated):
        try:
            line = click.prompt(_style("you", bold=True), default="", show_default=False, prompt_suffix="> ")
            action = call_of(line, tools) or line
        except NotACallError as error:
            click.echo(str(error))
            continue
        except click.Abort:  # Ctrl-D, or the end of a file of actions
            click.echo("\nNot played to its end.")
            break
        if line.strip() in ("quit", "exit"):
            click.echo("Not played to its end.")
            break
        if line.strip() == "help":
            click.echo(HELP)
        if line.strip() in ("", "help"):
            continue
        observation = env.step(action)
        total, steps = total + observation.reward, steps + 1
        _show(observation)
        told = [f"reward {observation.reward:+.3f}"] if observation.reward else []
        if error := observation.info.get("error"):
            told.append(f"the call counts as invalid: {error}")
        if told:
            click.echo(_style("; ".join(told), dim=True))
    _summary(observation, total, steps)


def _show(observation: Observation) -> None:
    from judges.common.text import for_terminal

    for message in observation.messages:
        click.echo(f"{_style(message['role'], bold=True)}: {for_terminal(str(message['content']))}")


def _style(text: str, **how: bool) -> str:
    """Codes of a terminal around the text, where it knows them."""
    return text if os.environ.get("TERM") in ("dumb", "unknown") else click.style(text, **how)


def _summary(observation: Observation, total: float, steps: int) -> None:
    end = "terminated" if observation.terminated else "truncated" if observation.truncated else "open"
    click.echo(_style(f"{end} after {steps} action{'' if steps == 1 else 's'}, reward {total:.3f}", bold=True))
    parts = {name: value for name, value in observation.metrics.items() if name.startswith("reward_") and value}
    if parts:
        told = (f"{value:+.3f} {name.removeprefix('reward_')}" for name, value in parts.items())
        click.echo(f"  = {' '.join(told)}")
    width = max(map(len, observation.metrics), default=0)
    for name, value in observation.metrics.items():
        if name == "success" or (value and name not in parts and name != "reward"):
            click.echo(f"  {name:{width}}  {value:g}")


def _signature(function: dict[str, Any]) -> str:
    parameters = function.get("parameters") or {}
    required = set(parameters.get("required", ()))
    names = ", ".join(name if name in required else f"{name}?" for name in parameters.get("properties", {}))
    return f"{function['name']}({names}): {function.get('description', '')}".rstrip(": ")


def call_of(line: str, tools: Sequence[dict[str, Any]]) -> str | None:
    """The action of a line in Python's form, as JSON; None where the line calls none of the tools.

    Raises:
        NotACallError: The line names a tool, but is no call with literal arguments.
    """
    tool = next((tool for tool in tools if line.replace(" ", "").startswith(f"{tool['name']}(")), None)
    if tool is None:
        return None
    names = list((tool.get("parameters") or {}).get("properties", {}))
    try:
        call = ast.parse(line.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        arguments = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
        arguments |= {str(given.arg): ast.literal_eval(given.value) for given in call.keywords}
    except (SyntaxError, ValueError, AssertionError) as error:
        raise NotACallError(f"{line!r} cannot be read: write {tool['name']}({', '.join(names)}) with values") from error
    return call_action(tool["name"], arguments)
