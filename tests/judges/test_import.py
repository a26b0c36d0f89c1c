import subprocess
import sys

REFUSE_SOCKETS = """
import sys
def refuse(event, args):
    assert not event.startswith("socket."), event
sys.addaudithook(refuse)
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", REFUSE_SOCKETS + program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_judges_opens_no_socket_and_loads_nothing_heavy():
    run("""
import judges
heavy = {"litellm", "openai", "httpx", "torch", "pydantic", "rich"} & set(sys.modules)
assert not heavy, heavy
""")


def test_loading_litellm_opens_no_socket_and_prints_nothing():
    run("""
from judges.llm.client import load_litellm
load_litellm()
""")


def test_the_refusal_of_sockets_would_notice_one():
    program = REFUSE_SOCKETS + "import socket\nsocket.socket()"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300).returncode == 1
