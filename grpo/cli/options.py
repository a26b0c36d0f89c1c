"""Options of commands that are settings: made from the fields of `grpo.config`, so that each is said once.

``--steps 5`` is ``--set steps=5``. The values are checked by the config, not here.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from grpo.config import recipe_names, settings_of
from grpo.envs.registry import SYSTEM_PROMPT, TASKS_ENV
from grpo.settings import Settings

Command = Callable[..., None]

OPTION_NAMES = {"answer_judge.model": "--answer-judge", "judge.rubric": "--rubric", "server.urls": "--server"}
"""Options that are not called as their settings are: ``judge.model`` is ``--judge-model``."""

METAVARS: dict[Any, str] = {int: "INTEGER", float: "NUMBER", str: "TEXT", bool: "true|false", dict: "JSON"}


def setting_options(
    kind: type[Settings], *names: str, needs: Sequence[str] = (), tasks: bool = False
) -> Callable[[Command], Command]:
    """Options that are settings of a config, and ``--set`` for those that have none.

    An option is made from the setting's field: its type, its description, its default. The command gets what was given
    as ``given``, by dotted names, for ``grpo.config``, which checks it.

    Args:
        kind: The config.
        names: Dotted names of the settings that have an option.
        needs: Those that must be given.
        tasks: Whether ``--tasks`` is taken: by an env that has tools alone, else it stands for an env.
    """
    fields = settings_of(kind)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapper(settings: tuple[str, ...] = (), **options: Any) -> None:
            given: dict[str, Any] = {}
            for name in names:
                text = options.pop(_parameter(name))
                if text not in (None, ()):
                    given[name] = setting_value(fields[name], text)
            if "env_kwargs" in names and (prompt := options.pop(SYSTEM_PROMPT)) is not None:
                given |= {"env_kwargs": {**given.get("env_kwargs", {}), SYSTEM_PROMPT: prompt}}
            if tasks and (file := options.pop("tasks")) is not None:
                given = {"env": TASKS_ENV, **given, "env_kwargs": {**given.get("env_kwargs", {}), "file": file}}
            if tasks and "env" in needs and "env" not in given:
                raise click.UsageError("Missing option '--env' (or '--tasks').")
            command(given=given | set_by_name(kind, settings), **options)

        decorated: Command = wrapper
        if others := [name for name in fields if name not in names]:
            decorated = click.option(
                "--set", "settings", multiple=True, metavar="KEY=VALUE",
                help=f"Any other setting (docs/settings.md), such as {others[-1]}; lists and objects as JSON.",
            )(decorated)  # fmt: skip
        if tasks:
            decorated = click.option(
                "--tasks", metavar="FILE",
                help="Tasks in place of an env, or for the tools of --env mcp:COMMAND; one JSON object a line: prompt, "
                "and answer where there is one.",
            )(decorated)  # fmt: skip
        if "env_kwargs" in names:
            decorated = click.option(
                "--system-prompt", SYSTEM_PROMPT, metavar="TEXT",
                help="Your text in place of what the env says of itself in the prompt.",
            )(decorated)  # fmt: skip
        for name in reversed(names):
            is_required = name in needs and not (tasks and name == "env")
            option = device_options if name == "device" else _option(name, fields[name], required=is_required)
            decorated = option(decorated)
        return decorated

    return decorate


def set_by_name(kind: type[Settings], settings: Sequence[str]) -> dict[str, Any]:
    """What ``--set KEY=VALUE`` gave, by dotted names.

    Raises:
        click.BadParameter: One has no ``=``.
    """
    fields, given = settings_of(kind), dict[str, Any]()
    for setting in settings:
        name, found, text = setting.partition("=")
        if not found:
            raise click.BadParameter(f"--set takes KEY=VALUE, not {setting!r}")
        name = name.replace("-", "_")
        given[name] = setting_value(fields.get(name), text)
    return given


def device_options(command: Command) -> Command:
    """``--cpu`` and ``--cuda``, as ``device``."""
    for device, where in (("cuda", "GPU"), ("cpu", "CPU")):
        command = click.option(f"--{device}", "device", flag_value=device, help=f"Compute on the {where}.")(command)
    return command


def recipe_option(command: Command) -> Command:
    """``--recipe``."""
    bundled = ", ".join(recipe_names())
    return click.option("--recipe", help=f"{bundled}, a TOML file, or a run's config.json; options override it.")(
        command
    )


def setting_value(field: FieldInfo | None, given: str | tuple[str, ...]) -> Any:
    """A setting's value as a command line has it: JSON, or text where the setting takes text or it is no JSON."""
    if isinstance(given, tuple):
        return given
    try:
        value = json.loads(given)
    except ValueError:
        return given
    takes_text = field is not None and str in _types(field.annotation)
    return given if takes_text and isinstance(value, int | float) else value


def what_it_takes(field: FieldInfo) -> str:
    """What a help text writes for the value of a setting: ``INTEGER``, ``auto|true|false``."""
    types = [each for each in _types(field.annotation) if each is not NoneType]
    words = (METAVARS.get(each, "TEXT") if isinstance(each, type) else json.dumps(each) for each in types)
    return "|".join(word.strip('"') for word in words)


def _option(name: str, field: FieldInfo, *, required: bool) -> Callable[[Command], Command]:
    described = str(field.description)
    default = "" if field.default in (None, (), PydanticUndefined) else f"  [default: {field.default}]"
    dashes = "-" if len(name) == 1 else "--"
    return click.option(
        OPTION_NAMES.get(name, dashes + re.sub("[._]", "-", name)),
        _parameter(name),
        required=required,
        multiple=tuple in _types(field.annotation),
        metavar=what_it_takes(field),
        help=f"{described[0].upper()}{described[1:]}.{default}",
    )


def _parameter(name: str) -> str:
    return name.replace(".", "__")


def _types(annotation: Any) -> list[Any]:
    """What a field takes: types, and the values of a Literal."""
    if get_origin(annotation) is Annotated:
        return _types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _types(part)]
    return list(get_args(annotation)) if get_origin(annotation) is Literal else [get_origin(annotation) or annotation]


def finite(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Callback of an option that takes a number: NaN passes every bound, and an infinite one is no limit."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no finite number")
    return value
