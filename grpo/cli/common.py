"""What every command shares: one boundary for errors and signals.

A command turns its options into settings (``options``) and calls the rooms below. An error becomes one clear line and
an exit status; Ctrl-C becomes a note on what is left. Heavy imports wait until a command runs: ``--help`` is instant.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 stopped by the user.
"""

import errno
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from grpo.errors import GrpoError, causes
from grpo.machine.hardware import share_cores
from grpo.machine.installed import how_to_install, require_linux
from grpo.machine.processes import start_with_kept_memory, torchrun_rank
from judges.common.files import DamagedFileError

Command = Callable[..., None]


def explained(on_stop: Callable[[dict[str, Any]], str] = lambda _options: "") -> Callable[[Command], Command]:
    """One boundary for every command: our errors are printed without a traceback, signals end the run in order.

    It also gives the command its ``--version``.

    Args:
        on_stop: What Ctrl-C, SIGTERM, a closed terminal or a disk that refuses leaves and how to go on, in a sentence
            or two; it gets the command's options.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapper(**options: Any) -> None:
            signal.signal(signal.SIGTERM, _like_ctrl_c)
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup has it ignored
                signal.signal(signal.SIGHUP, _like_ctrl_c)
            try:
                command(**options)
            except KeyboardInterrupt:
                click.echo(f"\nStopped. {on_stop(options)}".rstrip(), err=True)
                sys.exit(130)
            except Exception as error:
                if (said := _explanation(error, on_stop(options))) is None:
                    raise
                click.echo(f"Error: {said}".rstrip(), err=True)
                sys.exit(1)

        return click.version_option(package_name="email-rl")(wrapper)

    return decorate


def has_learner(command: Command) -> Command:
    """Run a command that has a learner. Of torchrun's processes the first runs it, and the others compute for it."""

    @wraps(command)
    def wrapper(**options: Any) -> None:
        require_linux("training")
        start_with_kept_memory()
        here = torchrun_rank()
        if here is None:
            command(**options)
            return
        share_cores()
        from grpo.learner.torchrun_engine import met

        with met(here) as drives:
            if drives:
                command(**options)

    return wrapper


def _explanation(error: Exception, left: str) -> str | None:
    """What an error means to the user; None where nobody foresaw it. ``left`` is said where the disk refuses."""
    if isinstance(error, GrpoError):
        return str(error)
    if isinstance(error, DamagedFileError):
        return f"{error}; mend it, or take it out"
    if isinstance(error, ModuleNotFoundError):
        return how_to_install(error)
    for cause in causes(error):
        code = cause.errno if isinstance(cause, OSError) else None
        if code in (errno.ENOSPC, errno.EDQUOT):
            return f"no space is left on the disk ({error}); make room. {left}"
        if code in _REFUSALS:
            return (
                f"the system refuses a file ({error}); check the disk, the permissions and the limits (ulimit -a). "
                f"{left}"
            )
    return None


_REFUSALS = (errno.EACCES, errno.EFBIG, errno.EIO, errno.EMFILE, errno.EROFS, errno.ESTALE)
"""What a disk that fails or was taken away, changed permissions and limits of the process come to."""


def _like_ctrl_c(_signal: int, frame: Any) -> None:
    """What Ctrl-C does at this moment: within ``asyncio.run`` it cancels the main task, which then cleans up."""
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    if not callable(on_ctrl_c):  # ignored, as in a shell's background jobs
        raise KeyboardInterrupt
    on_ctrl_c(signal.SIGINT, frame)
