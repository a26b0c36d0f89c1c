"""The site of the pages: built strictly, read in a real browser on a telephone and on a desk, without any other server."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.browser import Page, needs_chromium, text
from tests.support.wait import wait_until

PYTHON = ROOT / ".venv-site" / "bin" / "python"
needs_mkdocs = pytest.mark.skipif(not PYTHON.exists(), reason="mkdocs is not installed (scripts/site installs it)")
pytestmark = needs_mkdocs
WIDTHS = (400, 1280)


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(PYTHON), "-m", "mkdocs", "build", "--site-dir", str(folder), *options]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_page_loads_nothing_from_elsewhere_and_every_link_within_the_site_leads_to_a_file(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>", html) == []
        for target in re.findall(r"<a\b[^>]*\bhref=\"([^\"#?]+)", html):
            if not re.match(r"[a-z]+:", target):
                there = page.parent / target
                assert (there / "index.html" if there.is_dir() else there).is_file(), f"{page} links to {target}"


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    outside = ["README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md"]
    for number, (link, leads) in enumerate(
        {"../README.md": True, "nowhere.md": False, "../README.md#nowhere": False}.items()
    ):
        folder = tmp_path / str(number)
        pages = [*outside, "docs/page.md"]
        for page in pages:
            (folder / page).parent.mkdir(parents=True, exist_ok=True)
            (folder / page).write_text("# Page\n\nText.\n")
        (folder / "docs" / "page.md").write_text(f"# Page\n\nTo [a place]({link}).\n")
        (folder / "docs" / "site_hooks.py").write_text((ROOT / "docs" / "site_hooks.py").read_text(encoding="utf-8"))
        (folder / "mkdocs.yml").write_text(re.sub(r"(?ms)^nav:.*", f"nav: [{', '.join(pages)}]\n", config))
        built = build(folder / "site", "--config-file", str(folder / "mkdocs.yml"))
        assert (built.returncode == 0) is leads, built.stderr
        assert (link in built.stderr) is not leads, built.stderr


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_window_and_search_finds_a_word(address: str, tmp_path: Path, width: int) -> None:
    with Page(address, tmp_path / "profile") as page:
        page.resize(width)
        assert page.value(text("h1")).startswith("email-rl")
        pictures = "[...document.querySelectorAll('article img')].map(i => i.complete && i.naturalWidth > 0)"
        assert page.value(pictures) == [True, True]
        page.value("document.querySelector('.md-search__input').focus()")
        page.type(".md-search__input", "advantage")
        found = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.getAttribute('href')).join(' ')"
        wait_until(lambda: "how-it-works" in page.value(found))
        assert page.messages == []


@pytest.mark.browser
@needs_chromium
def test_no_page_is_wider_than_a_telephone_or_a_desk(address: str, site: Path, tmp_path: Path) -> None:
    with Page(address, tmp_path / "profile") as page:
        page.resize(WIDTHS[-1])
        for file in sorted(site.rglob("index.html")):
            frame = json.dumps(address + str(file.relative_to(site)))
            # a page in a frame of each width, so that one browser reads them all; the menu moves out of sight at once
            heading, *widths = page.value(
                "new Promise(done => { document.body.innerHTML = ''; const f = document.createElement('iframe');"
                f"f.style = 'border: 0; position: fixed; inset: 0; height: 800px'; f.src = {frame};"
                "f.onload = () => { const d = f.contentDocument, s = d.createElement('style');"
                "s.textContent = '* { transition: none !important }'; d.head.append(s);"
                "const wide = width => { f.style.width = width + 'px'; return d.documentElement.scrollWidth; };"
                f"done([d.querySelector('h1').textContent, ...{[*WIDTHS]}.map(wide)]); }};"
                "document.body.append(f); })"
            )
            assert heading, file
            assert all(found <= width for found, width in zip(widths, WIDTHS, strict=True)), (file, widths)


@pytest.mark.browser
@needs_chromium
@pytest.mark.skipif(not (ROOT / ".venv-site" / "mermaid.min.js").exists(), reason="npm could not fetch mermaid")
def test_diagrams_are_drawn(address: str, tmp_path: Path) -> None:
    with Page(f"{address}docs/how-it-works/", tmp_path / "profile") as page:
        page.resize(1280)
        # the theme draws in a closed shadow root, which only its size tells
        wait_until(lambda: page.value("(document.querySelector('div.mermaid') || {}).offsetHeight || 0") > 300)
        assert page.messages == []
