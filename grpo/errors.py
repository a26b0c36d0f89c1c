"""Exceptions of grpo. Each is also a standard-library type, so callers that do not know this tree can still catch it.

    GrpoError
    ├── ConfigError        (ValueError)     a setting has a value that cannot be used
    ├── ModelError         (ValueError)     a model name cannot be turned into a usable folder
    │   └── ModelUnavailableError (OSError) it could be, but not from here: a package or the model hub is missing
    ├── ServerError        (RuntimeError)   vLLM did not do what it was asked
    │   ├── ServerStartError                it ended or stayed silent before it was healthy
    │   ├── ServerDiedError                 it ended after it had been healthy
    │   ├── AdapterError                    an adapter could not be written, loaded or found
    │   └── ContextFullError                a policy's context has no room for another turn
    ├── EnvError           (RuntimeError)   an environment broke its contract (never: the model acted badly)
    ├── RewardError        (RuntimeError)   the user's own reward function did not reward a group
    ├── JudgeFailure       (RuntimeError)   a judge gave no usable verdict; its group has no scores
    ├── CheckpointError    (RuntimeError)   a checkpoint is missing, incomplete or belongs to another run
    ├── TrainingError      (RuntimeError)   a training step cannot go on (for example, a loss that is not finite)
    │   └── FullGpuError   (MemoryError)    the learner found no room on its GPU
    ├── EvaluationError    (RuntimeError)   an evaluation cannot be begun or continued as asked
    ├── DataError          (ValueError)     demonstrations cannot be used; the file and the line are named
    └── ReportError        (RuntimeError)   a run directory does not hold what a report needs

Messages say what was wrong, the value seen and the next step. A malformed action of the model is never an exception.
"""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
"""Of an object, in its repr: it tells nobody anything, and equal failures would differ by it."""
_OURS = str(Path(__file__).parent)
_INSTALLED = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])
_PYTHONS = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"])


class GrpoError(Exception):
    """Base of every error that grpo raises on purpose."""


class ConfigError(GrpoError, ValueError):
    """A setting has a value that cannot be used."""


class ModelError(GrpoError, ValueError):
    """A model name cannot be turned into a folder that vLLM and transformers can load."""


class ModelUnavailableError(ModelError, OSError):
    """The model exists in principle, but a package is not installed or the model hub is out of reach."""


class ServerError(GrpoError, RuntimeError):
    """A vLLM server did not do what it was asked."""


class ServerStartError(ServerError):
    """A server ended, or stayed silent for too long, before it was healthy. The message carries the end of its log."""


class ServerDiedError(ServerError):
    """A server that had been healthy has ended. The message carries the end of its log."""


class AdapterError(ServerError):
    """An adapter could not be written, loaded into the server, or found."""


class ContextFullError(ServerError):
    """A policy's context has no room for another turn of its episode."""


class EnvError(GrpoError, RuntimeError):
    """An environment broke its contract. What the model writes never raises this."""


class RewardError(GrpoError, RuntimeError):
    """The user's own reward function raised, or what it returned are not the group's rewards."""


class JudgeFailure(GrpoError, RuntimeError):
    """A judge gave no usable verdict. The group is dropped and counted; it never becomes a zero score."""


class CheckpointError(GrpoError, RuntimeError):
    """A checkpoint is missing, incomplete, or belongs to another run."""


class TrainingError(GrpoError, RuntimeError):
    """A training step cannot go on, for example because its loss is not finite."""


class FullGpuError(TrainingError, MemoryError):
    """The learner found no room on its GPU, for a tensor or for what CUDA needs first."""


class EvaluationError(GrpoError, RuntimeError):
    """An evaluation cannot be begun or continued as asked: its agent, its folder or its answers cannot be used."""


class DataError(GrpoError, ValueError):
    """Demonstrations cannot be used. The message names the file and the line."""


class ReportError(GrpoError, RuntimeError):
    """A run directory does not hold what a report needs."""


@contextmanager
def first_of_ours() -> Iterator[None]:
    """Where nothing but our own errors ended a group of tasks, the first of them is raised."""
    try:
        yield
    except ExceptionGroup as errors:
        if errors.split(GrpoError)[1] is not None:
            raise
        raise _first(errors) from errors


def _first(errors: ExceptionGroup[Any]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def describe(error: BaseException) -> str:
    """Somebody else's exception in one line: its type, its words, and where in their code it was raised."""
    if isinstance(error, BaseExceptionGroup) and error.exceptions:
        return describe(error.exceptions[0])
    if isinstance(error, GrpoError):
        return str(error)  # written for people; where in our code it was raised is of no use to them
    try:
        words = _ADDRESS.sub("", " ".join((_faults(error) or str(error)).split()))[:500]
    except Exception:  # their exception may fail to write itself; its type and place are left
        words = ""
    place = raised_in(error)
    return type(error).__name__ + (f": {words}" if words else "") + (f" ({place})" if place else "")


def _faults(error: BaseException) -> str:
    """What a record of another form lacks, which pydantic tells in many lines; of any other exception nothing."""
    if "pydantic" not in sys.modules:  # an agent's own interpreter may lack it
        return ""
    from pydantic import ValidationError

    from judges.common.text import shown

    faults = error.errors(include_url=False, include_context=False)[:3] if isinstance(error, ValidationError) else []
    return "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}, got {shown(f['input'])}" for f in faults)


def raised_in(error: BaseException) -> str:
    """``file.py:12``, where an exception left code that is not ours; the user's own rather than an installed package's.

    Empty where it was raised by us, by Gymnasium or by Python's own library.
    """
    for link in causes(error):
        frames = [f for f in traceback.extract_tb(link.__traceback__) if not f.filename.startswith((_OURS, "<"))]
        installed = [f for f in frames if f.filename.startswith(_INSTALLED) and "/gymnasium/" not in f.filename]
        own = [f for f in frames if not f.filename.startswith((*_INSTALLED, *_PYTHONS))]
        if found := own or installed:
            return f"{found[-1].filename.rpartition('/')[2]}:{found[-1].lineno}"
    return ""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it came of, the newest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
