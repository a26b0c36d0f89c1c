"""Tools as Python functions: real signatures and docstrings, made from OpenAI function schemas.

Whatever a function is called with goes on as it came, so that the env can answer a wrong argument with a text.
"""

import operator
import re
import sys
from collections.abc import Callable
from functools import reduce
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any, Literal, NotRequired

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    try:  # pydantic, by which frameworks read signatures, takes no other in 3.11, and brings this along
        from typing_extensions import TypedDict
    except ModuleNotFoundError:
        from typing import TypedDict

_PLAIN: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


def typed_function(schema: dict[str, Any], call: Callable[..., str], *, is_method: bool = False) -> Callable[..., str]:
    """The function of one tool, by its schema without OpenAI's wrapper.

    ``call`` takes the tool's name and the arguments that were given, and of a method the object before them.
    """
    signature = signature_of(schema)
    keys = {python_name(key): key for key in _properties(schema)}

    def tool(*args: Any, **kwargs: Any) -> str:
        owner, args = args[:is_method], args[is_method:]
        surplus = range(len(signature.parameters) + 1, len(args) + 1)  # which the env refuses
        named = [*signature.parameters, *(f"argument_{number}" for number in surplus)]
        given = dict(zip(named, args, strict=False)) | kwargs
        called = {keys.get(key, key): value for key, value in given.items()}
        arguments = {key: value for key, value in called.items() if value is not None or key in _required(schema)}
        return call(*owner, schema["name"], arguments)

    tool.__name__ = tool.__qualname__ = schema["name"]
    tool.__doc__ = docstring_of(schema)
    tool.__annotations__ = {key: each.annotation for key, each in signature.parameters.items()} | {"return": str}
    owner = [Parameter("self", Parameter.POSITIONAL_ONLY)] * is_method
    tool.__signature__ = signature.replace(parameters=[*owner, *signature.parameters.values()])  # type: ignore[attr-defined]
    return tool


def signature_of(schema: dict[str, Any]) -> Signature:
    """Required arguments first, optional ones with the default None."""
    properties, required = _properties(schema), _required(schema)
    ordered = sorted(properties, key=lambda key: key not in required)  # stable: else in the schema's order
    return Signature([_parameter(key, properties[key], key in required) for key in ordered], return_annotation=str)


def docstring_of(schema: dict[str, Any]) -> str:
    """The schema's descriptions as a Google docstring."""
    properties = _properties(schema)
    lines = [schema.get("description") or f"Calls {schema['name']}."]
    if properties:
        lines += ["", "Args:"]
        lines += [
            f"    {python_name(key)}: {value.get('description') or f'The {key}.'}" for key, value in properties.items()
        ]
    return "\n".join(lines)


def python_name(key: str) -> str:
    """The parameter that a property becomes: ``from_`` for ``from``, ``sent_after`` for ``sent-after``."""
    name = re.sub(r"\W", "_", key)
    name = name if name.isidentifier() else f"_{name}"
    return f"{name}_" if iskeyword(name) else name


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a tool takes, by name; a schema may be True, which takes anything."""
    properties: dict[str, Any] = (schema.get("parameters") or {}).get("properties", {})
    return {key: value if isinstance(value, dict) else {} for key, value in properties.items()}


def _required(schema: dict[str, Any]) -> list[str]:
    return (schema.get("parameters") or {}).get("required", [])


def _parameter(key: str, schema: dict[str, Any], required: bool) -> Parameter:
    name = python_name(key)
    kind = type_of(schema, name)
    if required:
        return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind | None, default=None)


def type_of(schema: Any, name: str = "Object") -> Any:
    """The Python type of a JSON schema: lists, choices, alternatives and objects in full, what refers elsewhere as Any.

    Args:
        schema: The schema.
        name: Of the type, where it is an object.
    """
    if not isinstance(schema, dict):
        return Any
    if choices := schema.get("enum"):
        plain = all(isinstance(choice, str | int | bool | None) for choice in choices)
        return Literal[tuple(choices)] if plain else Any
    kind = schema.get("type")
    kinds = [schema | {"type": each} for each in kind] if isinstance(kind, list) else []
    if alternatives := schema.get("anyOf") or schema.get("oneOf") or kinds:
        return reduce(operator.or_, [type_of(each, name) for each in alternatives])
    if kind == "array":
        return list[type_of(schema.get("items"), name)]
    if kind == "object":
        return _object(schema, name)
    return _PLAIN.get(kind, Any) if isinstance(kind, str) else Any


def _object(schema: dict[str, Any], name: str) -> Any:
    """A dict whose keys are told; any dict, where there may be others."""
    parts, required = schema.get("properties"), schema.get("required", ())
    if not parts or schema.get("additionalProperties"):
        return dict[str, Any]
    kinds = {key: type_of(part, f"{name}_{python_name(key)}") for key, part in parts.items()}
    fields = {key: kind if key in required else NotRequired[kind] for key, kind in kinds.items()}
    return TypedDict(name, fields)  # type: ignore[misc]
