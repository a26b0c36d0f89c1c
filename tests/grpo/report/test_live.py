"""A run that goes on, watched in a real browser: what it does now, its page, and the end of both."""

import json
import os
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from grpo.cli.view import view
from judges.common.files import locked, write_json
from tests.support.browser import Page, needs_chromium, text
from tests.support.reports import make_run
from tests.support.wait import wait_until

IN_FRAME = "document.querySelector('iframe').contentDocument"


def doing(root, *bars, waits=None):
    state = {"doing": list(bars), "parts": waits or {}, "time": 4e9}
    write_json(root / "watch.json", state)


@needs_chromium
def test_a_run_is_watched_until_it_ends(tmp_path):
    root = make_run(tmp_path / "run", episodes=3)
    steps = (root / "metrics.jsonl").read_bytes().splitlines()
    stuck = {"env": {"doing": "MyEnv-v0, step of train-7", "seconds": 61.0, "named": True, "waiting": 1}}
    doing(root, "rollout 3: 5/8", waits=stuck)
    running = locked(root / ".lock")
    command = subprocess.Popen(
        [sys.executable, "-m", "grpo", "view", str(root), "--live"],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stdout is not None
        url = command.stdout.readline().split(" is shown at ")[1].split()[0]
        assert httpx.get(url.rstrip("/")[:-1] + "x/report", trust_env=False).status_code == 404, "it has a secret"
        with Page(url, tmp_path / "profile") as page:

            def shows(part, where="#now"):
                return lambda: part in page.value(text(where))

            wait_until(shows(f"run: EmailSearch-v0, {len(steps)} of "))
            assert "rollout 3: 5/8" in page.value(text("#now"))
            assert "! env: MyEnv-v0, step of train-7 has not moved for 61 s" in page.value(text("#now"))
            charts = f"({IN_FRAME}?.querySelectorAll('svg.chart') || []).length"
            wait_until(lambda: page.value(charts) > 3)
            with (root / "metrics.jsonl").open("a") as log:
                more = json.loads(steps[-1]) | {"turns/cut_share": 0.9, "step": len(steps) + 1}
                log.write(json.dumps(more) + "\n")
            wait_until(shows(f"! cut turns: from step {len(steps) + 1}: 90%"))
            wait_until(lambda: "cut turns" in page.value(f"({IN_FRAME}?.body || {{}}).textContent || ''"))
            running.close()
            wait_until(shows("no process works on it"))
            assert page.messages == []
        assert command.wait(60) == 0
        assert f"No process works on {root} any more" in command.stdout.read()
    finally:
        running.close()
        command.kill()
        command.wait()
        command.stdout.close()


def test_what_cannot_be_watched_is_refused(tmp_path):
    root = make_run(tmp_path / "run", episodes=3)
    for arguments, said in (
        ([str(root), "--live"], f"no process works on {root}, so there is nothing to follow; leave --live out"),
        ([str(tmp_path), "--live"], "holds no run"),
        ([str(root), "--live", "--out", "page.html"], "leave AGAINST and --out out"),
    ):
        result = CliRunner().invoke(view, arguments)
        assert result.exit_code != 0
        assert said in result.output


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_cannot_be_had_is_refused(tmp_path, port):
    root = make_run(tmp_path / "run", episodes=3)
    with locked(root / ".lock"):
        result = CliRunner().invoke(view, [str(root), "--live", "--port", str(port)])
    assert result.exit_code == 2
    assert "is not in the range" in result.output
