"""A model hub on a local port: as much of its HTTP interface as `datasets` asks for when it streams a data set."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_COMMIT = "0" * 40


class HubServer:
    """Serves data sets, given as name -> file name -> bytes. A context manager; `url` is for HF_ENDPOINT."""

    def __init__(self, data_sets: Mapping[str, Mapping[str, bytes]]) -> None:
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                hub.asked.append(path)
                for name, files in data_sets.items():
                    if path.startswith(f"/api/datasets/{name}"):
                        return self.answer(200, _listing(name, files, path))
                    if path.startswith(f"/datasets/{name}/resolve/"):
                        content = files.get(path.split("/resolve/")[1].partition("/")[2])
                        if content is not None:
                            return self.answer_part(content)
                return self.answer(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": _COMMIT})

            do_HEAD = do_GET

            def answer_part(self, content: bytes) -> None:
                first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
                part = content[int(first) : int(last or len(content)) + 1]
                where = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
                self.answer(206, part, {"Content-Range": where, "ETag": '"1"', "X-Repo-Commit": _COMMIT})

            def answer(self, status: int, content: bytes, headers: Mapping[str, str] = {}) -> None:
                self.send_response(status)
                for header, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(header, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _listing(name: str, files: Mapping[str, bytes], path: str) -> bytes:
    if "/tree/" not in path:
        info = {"id": name, "sha": _COMMIT, "private": False, "tags": [], "downloads": 0}
        return json.dumps({**info, "siblings": [{"rfilename": file} for file in files]}).encode()
    folder = path.split("/tree/")[1].partition("/")[2]
    entries = [
        {"type": "file", "path": file, "size": len(content), "oid": "1" * 40}
        for file, content in files.items()
        if file.rpartition("/")[0] == folder
    ]
    folders = {file.partition("/")[0] for file in files if "/" in file} if not folder else set()
    entries += [{"type": "directory", "path": file, "size": 0, "oid": "2" * 40} for file in sorted(folders)]
    return json.dumps(entries).encode()
