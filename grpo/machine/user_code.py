"""Code that the user names on the command line: a module that registers an env, a function that rewards a group.

A module is named as in an import (``pkg.mod``) or by its file (``path/to/mod.py``), and is looked for from the current
directory as well, as ``python -m`` does.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo.errors import ConfigError, describe


def import_user_module(name: str) -> ModuleType:
    """Import ``pkg.mod`` or ``path/to/mod.py``.

    Raises:
        ConfigError: There is no such module or file, or it failed while it was imported.
    """
    if name.endswith(".py"):
        path = Path(name).resolve()
        if not path.is_file():
            raise ConfigError(f"there is no file {name} (looked for {path})")
        module = _import(path.stem, path.parent, shown=name, file=path)
        if Path(getattr(module, "__file__", None) or "").resolve() != path:
            raise ConfigError(f"{name} cannot be imported: another module is named {path.stem!r}; rename the file")
        return module
    return _import(name, Path.cwd(), shown=name)


def load_function(target: str) -> Callable[..., Any]:
    """The function that ``pkg.mod:name`` (or ``path/to/mod.py:name``) stands for.

    Raises:
        ConfigError: The target has another form, the module cannot be imported, or it has no such function.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name or not name.isidentifier():
        raise ConfigError(f"{target!r} names no function; write pkg.mod:function, for example my_rewards:brevity")
    module = import_user_module(module_name)
    function = getattr(module, name, None)
    if not callable(function):
        seen = f"is no function but {function!r}" if hasattr(module, name) else "does not exist"
        raise ConfigError(f"{target!r}: {name!r} {seen} in the module {module_name}")
    return function


def _loaded_from(path: Path) -> ModuleType | None:
    """The module that was imported from this file before, under whatever name; a second one would register twice."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if file and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    return None


def _import(name: str, folder: Path, *, shown: str, file: Path | None = None) -> ModuleType:
    if os.fspath(folder) not in sys.path:
        sys.path.insert(0, os.fspath(folder))
    try:
        if file is None and name not in sys.modules:
            spec = importlib.util.find_spec(name)
            file = Path(spec.origin).resolve() if spec is not None and spec.has_location and spec.origin else None
        return (_loaded_from(file) if file is not None else None) or importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"there is no module {shown!r} (looked in {folder} and in what is installed)") from error
        raise ConfigError(f"importing {shown} failed: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module does at import
        raise ConfigError(f"importing {shown} failed: {describe(error)}") from error
