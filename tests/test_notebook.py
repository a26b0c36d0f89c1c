"""examples/first_steps.ipynb prints what it shows: its cells run in one Python, without a notebook's packages."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests import ROOT, documents

NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def test_its_cells_print_what_is_stored_below_them():
    pytest.importorskip("uvicorn", reason="an agent that is a function needs the extra 'eval'")
    mark = "-- next cell\n"
    program = f"print({mark!r}, end='')\n".join("".join(cell["source"]) + "\n" for cell in CODE)
    environment = {name: value for name, value in os.environ.items() if name != "EMAIL_ENV_DB"}
    environment["PYTHONPATH"] = str(ROOT)
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    stored = ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in CODE]
    assert ran.stdout.split(mark) == stored
    assert len(CODE) > 4
    assert NOTEBOOK.stat().st_size < 20_000


def test_it_says_what_the_reader_wants_and_its_links_lead_somewhere():
    first, *_ = texts = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown"]
    assert re.match(r"# .+\n\nYou want ", first)
    for target in re.findall(r"\]\(([^)#]+)", "".join(texts)):
        assert (NOTEBOOK.parent / target).exists(), target
    assert f"examples/{NOTEBOOK.name}" in documents()
