"""Hooks of mkdocs: the site has the repository's tree, so a link leads where it leads in the repository.

Pages are written for GitHub; what mkdocs reads otherwise is said in its words. A file that is no page but is linked
to, such as an example, becomes a page that shows it. Nothing is fetched from elsewhere when a page is read.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
OUTSIDE = ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md")
"""Pages that are not under docs/."""
MERMAID = ROOT / ".venv-site" / "mermaid.min.js"
"""What draws diagrams, where scripts/site could install it; they stay text where not."""
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Give each file the place that it has in the repository, and add what is linked to."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
        if file.inclusion.is_included():
            files.append(File.generated(config, f"docs/{file.src_uri}", abs_src_path=file.abs_src_path))
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for page in [*files.documentation_pages()]:
        for target in _LINK.findall(page.content_string):
            if source := _source(page.src_uri, target):
                _show(source, files, config)
    if MERMAID.exists():
        files.append(File.generated(config, "assets/mermaid.min.js", abs_src_path=str(MERMAID)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The words that mkdocs takes for what GitHub shows."""
    here = page.file.src_uri
    parts = _FENCE.split(markdown)
    for place, part in enumerate(parts):
        if part.startswith("```console"):  # without prompts, so that a copied line runs
            parts[place] = re.sub(r"^\$ ", "", part.replace("```console", "```bash", 1), flags=re.M)
        elif part.startswith("```mermaid"):
            script = get_relative_url("assets/mermaid.min.js", page.url)
            drawn = f'{part}\n\n<script src="{script}"></script>\n'
            parts[place] = drawn if MERMAID.exists() else part.replace("```mermaid", "```text", 1)
        elif not part.startswith("```"):
            text = re.sub(r"^<!--.*-->\n", "", part, flags=re.M)
            text = re.sub(r"^ +", lambda indent: indent[0] * 2, text, flags=re.M)  # lists in lists
            parts[place] = _LINK.sub(lambda link: link[0] + (".md" if _source(here, link[0]) else ""), text)
    return "".join(parts)


def _source(page: str, target: str) -> str | None:
    """A file or folder of the repository that a link of a page leads to, if it is neither a page nor a picture."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    is_shown = path.startswith("..") or Path(path).suffix in (".md", ".png", ".svg")
    return path if not is_shown and (ROOT / path).exists() else None


def _show(source: str, files: Files, config: MkDocsConfig) -> None:
    """Add the page of a file, or of a folder with those of its files."""
    uri, path = f"{source}.md", ROOT / source
    if files.get_file_from_path(uri):
        return
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.is_file() and each.name[0] not in "._")
        content = "".join(f"- [{each.name}]({path.name}/{each.name}.md)\n" for each in inside)
        for each in inside:
            _show(f"{source}/{each.name}", files, config)
    elif path.suffix == ".ipynb":
        content = "\n".join(_notebook(path))
    else:
        content = f"~~~~{path.suffix[1:] or 'text'}\n{path.read_text(encoding='utf-8')}~~~~\n"
    if not content.startswith("# "):
        content = f"---\nsearch:\n  exclude: true\n---\n# {source}\n\n{content}"
    files.append(File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV))


def _notebook(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        is_code, text = cell["cell_type"] == "code", "".join(cell["source"])
        yield f"```python\n{text}\n```\n" if is_code else f"{text}\n"
        if printed := "".join(line for output in cell.get("outputs", ()) for line in output["text"]):
            yield f"```text\n{printed}```\n"
