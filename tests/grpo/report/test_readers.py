"""Who reads a page: on a telephone, on paper, by keyboard, by ear, in faint words."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grpo.ending import Ending
from grpo.report import write_report
from judges.common.files import read_json, write_json
from tests.support.browser import ROWS, Page, click, needs_chromium, text
from tests.support.evaluations import rows, run
from tests.support.reports import make_episode, make_run, save, write_lines

pytestmark = [pytest.mark.browser, needs_chromium]


def test_nothing_makes_the_page_of_a_run_wider_than_a_telephone(tmp_path: Path) -> None:
    """Neither a long name of the run or of its model, nor a long row."""
    root = make_run(tmp_path / f"run_{'x' * 100}", episodes=6)
    config = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps(config | {"model": f"/models/{'m' * 100}"}))
    record = make_episode(0, -0.5, solved=False, turn_errors=["bad_json", "unknown_tool", "bad_args"])
    save(root / "trajectories" / "step-0001.jsonl", [replace(record, ending=Ending.MAX_TURNS)])
    with Page(write_report(root), tmp_path / "profile") as page:
        page.choose("[name=source]", "step 1")
        assert page.value(ROWS) == 1  # which opens it
        assert root.name in page.value(text("main"))
        for width in (800, 360):
            page.resize(width)
            assert page.value("document.documentElement.scrollWidth - window.innerWidth") <= 0
        boxes = "[...document.querySelectorAll('.evaluation > div')].map(b => b.scrollWidth - b.clientWidth)"
        assert page.value(boxes) == [0, 0]  # no column is out of sight
        tags = "[...document.querySelectorAll('.head .tag')].map(t => t.getBoundingClientRect().right <= 360)"
        assert page.value(tags) == [True] * 6
        assert page.value("getComputedStyle(document.getElementById('filters')).position") == "static"
        page.resize(1100)
        assert page.value("getComputedStyle(document.getElementById('filters')).position") == "sticky"


def test_nor_that_of_a_comparison_of_long_names(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, agent in zip(folders, ("wrong", "oracle"), strict=True):
        assert run("--agent", agent, "--limit", "4", "--out", str(folder), count=4).exit_code == 0
        name = {"agent": f"examples.agents.{agent}_framework_agent:agent", "model": "openai:a-large-model@http://h/v1"}
        write_json(folder / "config.json", read_json(folder / "config.json") | name)
        crash = {"ending": "agent_crash", "error": f"RuntimeError: {'x' * 200}", "turn_errors": ["unknown_tool"]}
        first, *others = rows(folder)
        write_lines(folder / "results.jsonl", [first | crash, *others])
    with Page(write_report(*folders), tmp_path / "profile") as page:
        page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        for width in (768, 400, 360):
            page.resize(width)
            assert page.value("document.documentElement.scrollWidth - window.innerWidth") <= 0
            boxes = "[...document.querySelectorAll('table')].map(t => t.parentElement.scrollWidth - t.parentElement.clientWidth)"
            assert page.value(boxes) == [0, 0], width
            asked = "document.querySelector('#list .ask').getBoundingClientRect().width"
            assert page.value(asked) > width / 3  # the names leave room for the question


def test_paper_shows_a_whole_group(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", steps=1, episodes=6)
    group = [make_episode(900, 1.0, solved=True, sample_index=n) for n in range(8)]
    save(root / "trajectories" / "step-0001.jsonl", group)
    with Page(write_report(root), tmp_path / "profile") as page:
        page.choose("[name=source]", "step 1")
        page.value(click("#list .head"))
        page.resize(794)
        sides = "document.querySelector('.sides.wide')"
        assert page.value(f"{sides}.children.length") == 8
        assert page.value(f"{sides}.scrollWidth > {sides}.clientWidth")
        page.print_preview()
        assert page.value(f"{sides}.scrollWidth - {sides}.clientWidth") == 0


def test_the_page_can_be_used_by_keyboard_and_heard(tmp_path: Path) -> None:
    with Page(write_report(make_run(tmp_path / "run")), tmp_path / "profile") as page:
        unnamed = "[...document.querySelectorAll('svg')].filter(s => !s.getAttribute('aria-label')).length"
        assert page.value(unnamed) == 0
        assert page.value("[...document.querySelectorAll('th')].filter(h => !h.textContent).length") == 0
        boxes = "[...document.querySelectorAll('.evaluation > div, .scroll')].map(box => box.tabIndex)"
        assert page.value(boxes) == [0, 0, 0]


@pytest.mark.parametrize("dark", [False, True])
def test_faint_words_can_be_read(tmp_path: Path, dark: bool) -> None:
    """WCAG 2's formula: words this small need a contrast of 4.5 with the card and with the page behind them."""
    contrast = """(function (scheme) {
      var sheet = [...document.styleSheets[0].cssRules].map(r => r.cssText).join("");
      var light = sheet.match(/:root \\{[^}]*\\}/g)[scheme];
      function luminance(name) {
        var hex = light.match(new RegExp("--" + name + ": #(......)"))[1];
        var c = [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16) / 255);
        c = c.map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
      }
      return ["card", "page"].map(function (ground) {
        var both = [luminance("faint"), luminance(ground)].sort((a, b) => b - a);
        return (both[0] + 0.05) / (both[1] + 0.05) >= 4.5;
      });
    })"""
    with Page(write_report(make_run(tmp_path / "run", steps=1, episodes=6)), tmp_path / "profile") as page:
        assert page.value(f"{contrast}({int(dark)})") == [True, True]
