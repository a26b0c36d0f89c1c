"""Versions of the policy's LoRA adapter: written whole, served under a name of their own, taken back when unused.

They are read by servers that run now and removed when the next run begins, so nothing waits until they are on the disk.

vLLM keys its prefix cache and its reload on an adapter's name, so a name or a folder is never used twice: each
published version gets both anew. A version is unloaded when no episode uses it and a newer one exists; an episode keeps
its version to its end. It is given out once every server that is in has it; one that comes back gets all that are
alive. All methods may be called from several threads.
"""

import logging
import re
import secrets
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grpo.errors import AdapterError, ServerError
from grpo.machine.adapters import ADAPTER_FILES
from grpo.serving.fleet import Fleet, Member
from grpo.serving.server import ExternalServer, NoAnswerError, PolicyServer, models_of, post

_OWN_FOLDER = re.compile(r"\.?policy-[0-9a-f]{6}-\d{4,}(\.\d+)?")
_LOAD_TIMEOUT_SECONDS = 120.0
_UNLOAD_TIMEOUT_SECONDS = 10.0
_MAX_AT_ONCE = 32
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdapterHandle:
    """A published version.

    Attributes:
        name: The model name to ask the server for.
        path: Folder with adapter_config.json and adapter_model.safetensors.
        version: The version that the caller gave, usually the GRPO step.
    """

    name: str
    path: Path
    version: int


class AdapterStore:
    """The adapter versions that a run keeps alive on its servers."""

    def __init__(self, fleet: Fleet, root: Path):
        """Take over ``root``: what an earlier process of the run left there is removed.

        Args:
            fleet: Of servers with LoRA and run-time adapter loading enabled.
            root: Folder for the versions; every server must see it under the same path.
        """
        self._fleet = fleet
        self._root = root.resolve()
        self._session = secrets.token_hex(3)  # a server or a folder may outlive the process that uses it
        self._published = 0
        self._users: dict[AdapterHandle, int] = {}  # insertion order is publication order
        self._lock = fleet.lock
        self._root.mkdir(parents=True, exist_ok=True)
        for left_over in self._root.iterdir():
            if _OWN_FOLDER.fullmatch(left_over.name):
                shutil.rmtree(left_over)
        fleet.on_return.append(self._reload)
        fleet.on_stop.append(self._leave)

    def publish(self, save: Callable[[Path], None], version: int) -> AdapterHandle:
        """Write a new version, have every server load it, and drop versions that nobody uses.

        A server that does not answer is taken out of the fleet; it gets the version when it comes back.

        Args:
            save: Writes the adapter in peft's format into the folder it is given, which does not exist yet.
            version: A number for people; it need not be unique.

        Returns:
            The version, ready to be asked for; the newest from now on.

        Raises:
            AdapterError: ``save`` wrote no whole adapter.
            ServerError: A server refuses it. The former newest stays.
        """
        with self._lock:
            handle = self._write(save, version)
            try:
                self._load_everywhere(handle)
            except ServerError:
                self._at_each(self._unload, handle)  # those that took it; the others do not know it
                shutil.rmtree(handle.path)
                raise
            self._users[handle] = 0
            self._drop_unused()
            return handle

    def acquire(self, version: int) -> AdapterHandle:
        """Note one more user of what was published last as ``version``, which keeps it alive until ``release``.

        Raises:
            AdapterError: It was never published, or is no longer loaded.
        """
        with self._lock:
            for handle in reversed(self._users):
                if handle.version == version:
                    self._users[handle] += 1
                    return handle
            loaded = [handle.version for handle in self._users]
            raise AdapterError(f"version {version} is not served; loaded are {loaded}")

    def release(self, handle: AdapterHandle) -> None:
        """Note that one user of a version has ended; drop the version if it was the last and a newer one exists."""
        with self._lock:
            assert self._users.get(handle), "it was acquired"
            self._users[handle] -= 1
            self._drop_unused()

    def _write(self, save: Callable[[Path], None], version: int) -> AdapterHandle:
        self._published += 1
        name = f"policy-{self._session}-{version:04d}.{self._published}"
        scratch, path = self._root / f".{name}", self._root / name
        try:
            save(scratch)
            missing = [file for file in ADAPTER_FILES if not (scratch / file).is_file()]
            if missing:
                raise AdapterError(f"the adapter of version {version} was saved without {' and '.join(missing)}")
            scratch.rename(path)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return AdapterHandle(name, path, version)

    def _drop_unused(self) -> None:
        newest = next(reversed(self._users))
        for handle in [handle for handle, users in self._users.items() if users == 0 and handle != newest]:
            del self._users[handle]
            for _, error in self._at_each(self._unload, handle):
                if error is not None:  # not worth a run: a server that is gone or new does not hold it either
                    _LOGGER.warning("%s", error)
            shutil.rmtree(handle.path, ignore_errors=True)  # a folder that stays is not worth a run

    def _load_everywhere(self, handle: AdapterHandle) -> None:
        for member, error in self._at_each(self._load, handle):
            if isinstance(error, NoAnswerError):
                self._fleet.take_out(member, member.returns, str(error))
            elif error is not None:
                raise error

    def _at_each(
        self,
        action: Callable[[PolicyServer, AdapterHandle], None],
        handle: AdapterHandle,
        members: Sequence[Member] | None = None,
    ) -> Sequence[tuple[Member, ServerError | None]]:
        """Do it at these servers, or at every one that is in, all at once; with what went wrong."""

        def tried(member: Member) -> tuple[Member, ServerError | None]:
            try:
                action(member.server, handle)
            except ServerError as error:
                return member, error
            return member, None

        members = self._fleet.present() if members is None else members
        if not members:
            return []
        with ThreadPoolExecutor(min(len(members), _MAX_AT_ONCE)) as pool:
            return list(pool.map(tried, members))

    def _reload(self, server: PolicyServer) -> None:
        """Load every live version at a server that is back; it may hold some of them still."""
        with self._lock:
            held = models_of(server)
            for handle in self._users:
                if handle.name not in held:
                    self._load(server, handle)

    def _leave(self) -> None:
        """Unload every live version from the servers that go on when the run has ended."""
        with self._lock:
            theirs = [member for member in self._fleet.present() if isinstance(member.server, ExternalServer)]
            for handle in self._users:
                self._at_each(self._unload, handle, theirs)

    def _load(self, server: PolicyServer, handle: AdapterHandle) -> None:
        body = {"lora_name": handle.name, "lora_path": str(handle.path)}
        try:
            post(server, "/v1/load_lora_adapter", _LOAD_TIMEOUT_SECONDS, json=body)
        except NoAnswerError:
            raise
        except ServerError as error:
            raise AdapterError(
                f"{error}. It loads adapters at run time if vLLM was started with --enable-lora and "
                f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, and must see {handle.path}"
            ) from error

    def _unload(self, server: PolicyServer, handle: AdapterHandle) -> None:
        post(server, "/v1/unload_lora_adapter", _UNLOAD_TIMEOUT_SECONDS, json={"lora_name": handle.name})
