"""`email-env-server` serves an env to OpenEnv's clients, `email-env-mcp` one episode's tools to any client of MCP."""

import asyncio
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from gymnasium.error import Error as GymnasiumError

from email_env.adapters.episode import EMAIL_SEARCH, Episode
from email_env.errors import EmailEnvError
from email_env.versions import __version__


def _env_options(command: Callable[..., None]) -> Callable[..., None]:
    what = "EmailSearch-v0, or any Gymnasium env that speaks in messages, as module:id."
    how = "JSON, the arguments of its constructor."
    command = click.option("--env-kwargs", type=json.loads, metavar="JSON", default="{}", help=how)(command)
    return click.option("--env", "env_id", default=EMAIL_SEARCH, show_default=True, metavar="ID", help=what)(command)


def _begun(package: str, env_id: str, env_kwargs: Any, **task: Any) -> Episode:
    if importlib.util.find_spec(package) is None:
        raise click.ClickException(f"this command needs the package {package}. Install it: pip install {package}")
    try:
        return Episode(env_id, env_kwargs).begin(**task)
    except (EmailEnvError, GymnasiumError, TypeError, ModuleNotFoundError) as error:
        raise click.ClickException(f"{env_id} cannot be served: {error}") from error


@click.command(epilog="""Example: email-env-server --env-kwargs '{"split": "test"}' --port 8000""")
@_env_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 lets others in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option("--sessions", type=click.IntRange(1), default=64, show_default=True, help="Episodes at the same time.")
@click.version_option(__version__)
def serve(env_id: str, env_kwargs: Any, host: str, port: int, sessions: int) -> None:
    """Serve an env to OpenEnv's clients, by WebSocket (/ws), until Ctrl-C.

    ENABLE_WEB_INTERFACE=true adds OpenEnv's page at /web. There is no password: whoever reaches the port can play.
    """
    _begun("openenv", env_id, env_kwargs).env.close()  # what is wrong is said here, not to the first client
    import uvicorn

    from email_env.adapters.openenv_environment import app

    uvicorn.run(app(env_id, env_kwargs, sessions), host=host, port=port)


@click.command(epilog="Example: email-env-mcp --scenario train-01-007 --result result.json")
@_env_options
@click.option("--scenario", help="Which task, by its id.")
@click.option("--seed", type=int, help="Which task, by a seed.")
@click.option("--result", type=click.Path(path_type=Path), help="JSON file for the result, written after each call.")
@click.version_option(__version__)
def mcp(env_id: str, env_kwargs: Any, scenario: str | None, seed: int | None, result: Path | None) -> None:
    """Serve the tools of one episode over MCP, on stdin and stdout, until the client hangs up.

    The reward is the resource episode://result, null until the episode has ended.
    """
    episode = _begun("mcp", env_id, env_kwargs, seed=seed, scenario_id=scenario)
    from email_env.adapters.mcp_server import run

    asyncio.run(run(episode, result))
