"""A stand-in for the package ``vllm``, put on PYTHONPATH: it starts fast, has an engine process, and fails on demand.

Only what ``grpo.serving.vllm_main`` touches is there. The real thing is tested by the tests marked ``vllm``.
"""

from pathlib import Path

ENTRY = """
import json, multiprocessing, os, signal, socket, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer


def engine():
    print("engine's cores", os.environ.get("OMP_NUM_THREADS"), os.environ.get("OMP_PLACES"), flush=True)
    time.sleep(600)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/v1") and self.headers["Authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
            return self.send_error(401)
        body = json.dumps({"data": [{"id": "base"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        print("asked for", self.path, flush=True)
        fails = self.path.partition("?")[0] == {"sleeps on": "/wake_up", "no sleep": "/sleep"}.get(os.environ.get("FAKE_VLLM_MODE"))
        self.send_response(500 if fails else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def main():
    mode = os.environ.get("FAKE_VLLM_MODE", "")
    print("(APIServer pid=1) INFO 01-01 00:00:00 [model.py:733] Resolved architecture: Fake", flush=True)
    path = os.environ["VLLM_RPC_BASE_PATH"] + "/of-the-engine"
    socket.socket(socket.AF_UNIX).bind(path)
    print("socket", path, flush=True)
    if mode == "die":
        print("Traceback (most recent call last):", flush=True)
        print("(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:9] ValueError: the weights are 7 bytes long", flush=True)
        sys.exit(3)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock = multiprocessing.get_context("spawn").Lock()
    print("semaphore", lock._semlock.name, flush=True)
    child = multiprocessing.get_context("spawn").Process(target=engine, daemon=True)
    child.start()
    print("engine", child.pid, "of", os.environ.get("OMP_PLACES"), flush=True)
    while mode == "slow" and not os.path.exists(os.environ["FAKE_VLLM_READY"]):
        time.sleep(0.05)
    if mode == "never":
        time.sleep(600)
    HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def write_fake_vllm(root: Path) -> Path:
    """Write the package below ``root`` and return the folder to put on PYTHONPATH."""
    package = root / "fake" / "vllm" / "entrypoints" / "launchers" / "api_server"
    package.mkdir(parents=True)
    for folder in (package, *package.parents[:3]):
        (folder / "__init__.py").write_text("")
    (package / "entry.py").write_text(ENTRY)
    return root / "fake"
