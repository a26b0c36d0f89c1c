"""A model hub on a local port: as much of its HTTP interface as is asked for to stream a data set or fetch a model."""

import hashlib
from collections.abc import Mapping
from typing import Any

from tests.support.http_stub import HttpStub, Request, Response

_COMMIT = "0" * 40


class HubServer(HttpStub):
    """Serves data sets, given as name -> file name -> bytes; `url` is for HF_ENDPOINT."""

    def __init__(self, data_sets: Mapping[str, Mapping[str, bytes]]) -> None:
        super().__init__()
        self.data_sets = data_sets

    def answer(self, request: Request) -> Response:
        path = request.path.partition("?")[0]
        for name, files in self.data_sets.items():
            if path.startswith(f"/api/datasets/{name}"):
                return Response(_listing(name, files, path))
            if path.startswith(f"/datasets/{name}/resolve/"):
                content = files.get(path.split("/resolve/")[1].partition("/")[2])
                if content is not None:
                    return _part(content, request.headers.get("range", "bytes=0-"))
        return Response(b"{}", 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": _COMMIT})


class ModelHub(HttpStub):
    """Serves models, given as `HubServer`'s data sets are."""

    def __init__(self, models: Mapping[str, Mapping[str, bytes]]) -> None:
        super().__init__()
        self.models = models

    def answer(self, request: Request) -> Response:
        path = request.path.partition("?")[0]
        for name, files in self.models.items():
            if path.startswith(f"/api/models/{name}"):
                return Response(_listing(name, files, path))
            content = files.get(path.removeprefix(f"/{name}/resolve/").partition("/")[2])
            if content is not None:
                tag = hashlib.sha256(content).hexdigest()
                return Response(content, 200, {"ETag": f'"{tag}"', "X-Repo-Commit": _COMMIT})
        return Response(b"{}", 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": _COMMIT})


def _part(content: bytes, asked: str) -> Response:
    first, _, last = asked.removeprefix("bytes=").partition("-")
    part = content[int(first) : int(last or len(content)) + 1]
    where = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
    return Response(part, 206, {"Content-Range": where, "ETag": '"1"', "X-Repo-Commit": _COMMIT})


def _listing(name: str, files: Mapping[str, bytes], path: str) -> Any:
    if "/tree/" not in path:
        info = {"id": name, "sha": _COMMIT, "private": False, "tags": [], "downloads": 0}
        return {**info, "siblings": [{"rfilename": file} for file in files]}
    folder = path.split("/tree/")[1].partition("/")[2]
    entries = [
        {"type": "file", "path": file, "size": len(content), "oid": "1" * 40}
        for file, content in files.items()
        if file.rpartition("/")[0] == folder
    ]
    folders = {file.partition("/")[0] for file in files if "/" in file} if not folder else set()
    entries += [{"type": "directory", "path": file, "size": 0, "oid": "2" * 40} for file in sorted(folders)]
    return entries
