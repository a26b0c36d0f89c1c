"""Takes from a Python that has this folder first on its path, and from its child processes, what only Linux has.

That is /proc, /sys, and calls of the kernel. macOS itself has ``fcntl`` and ``resource``, but what works without them
works there, too. The standard library stays the one of this machine.
"""

import os
import sys
import sysconfig
import urllib.request  # noqa: F401  (where sys.platform is darwin it loads a module that is in no other build)
from importlib.abc import MetaPathFinder

sysconfig.get_config_vars()  # reads a file whose name has sys.platform in it


class _Lacking(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in ("fcntl", "resource"):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _lack_kernel_files(event: str, args: tuple[object, ...]) -> None:
    if event in ("open", "os.scandir", "os.listdir") and str(args[0]).startswith(("/proc", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", str(args[0]))


sys.platform = "darwin"
sys.meta_path.insert(0, _Lacking())
sys.addaudithook(_lack_kernel_files)
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "pipe2", "memfd_create", "pidfd_open"):
    vars(os).pop(name, None)
