"""How many files a process may open."""

import subprocess
import sys

from tests import ROOT

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
from grpo.envs.pool import EnvPool
EnvPool("tests.support.envs:LetterEnv-v0", {}).close()
print(resource.getrlimit(resource.RLIMIT_NOFILE), len([open("/dev/null") for _ in range(400)]))
"""


def test_a_thousand_episodes_may_have_a_file_and_a_socket_each_where_the_system_allows_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "(512, 512) 400\n", done.stderr
