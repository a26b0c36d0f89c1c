"""One self-contained offline HTML page for a training run, for an evaluation, or for two evaluations side by side.

Every part of a folder is optional, so what was stopped early has a page too. A page holds text of models and of
strangers' mail: the template escapes all of it, episodes travel as JSON and are shown as text alone, and a content
security policy lets nothing run but the page's own script, named by its hash. Nothing is loaded from anywhere.

    from grpo.report import write_report
    write_report(Path("runs/first"))

Runs and evaluations share one page. Its episodes are data that one script draws: in the list, in the pairs at the top,
and side by side. Each distinct text stands in the page once, because many episodes read the same mail. Up to 5,000
episodes are plain JSON, which a browser reads at once; a page that fetches parts of itself would need a server.

``run`` reads a run directory, ``training`` and ``evaluation`` make the sections of either page, ``episodes`` the data
of its episodes, ``page`` the HTML; ``charts.js`` and ``explorer.js`` are its script.
"""

from collections.abc import Iterable
from pathlib import Path

from grpo.errors import ReportError
from grpo.report.evaluation import evaluation_page
from grpo.report.page import render
from grpo.report.run import load_run
from grpo.report.training import training_page
from judges.common.files import replacing

__all__ = ["write_report"]


def write_report(folder: Path, against: Path | None = None, out: Path | None = None, *, anyway: bool = False) -> Path:
    """Write the page of a folder, atomically.

    Args:
        folder: A run directory, or an evaluation's folder.
        against: A second evaluation; the first is the baseline it is compared with.
        out: Where to; ``report.html`` in the folder by default, where there are two ``comparison.html`` in the second.
        anyway: Compare evaluations that did not ask the same questions of the same data, too; the page says so.

    Returns:
        The page's path.

    Raises:
        ReportError: The directory holds no part of a run or evaluation, a file in it can't be read, two folders are
            given and one is no evaluation, or the page can't be written: ``out`` is a file that is no page, too.
        EvaluationError: A line of an evaluation is damaged, or the two did not ask the same questions.
    """
    if out is not None:
        _refuse_other_files(out)
    folders = [folder] if against is None else [folder, against]
    evaluations = [one for one in folders if (one / "results.jsonl").exists()]
    if len(evaluations) == len(folders):
        page = evaluation_page(folders, anyway=anyway)
    elif against is None:
        page = training_page(load_run(folder), folder.absolute().name)
    else:
        other = next(one for one in folders if one not in evaluations)
        raise ReportError(f"{other} holds no results.jsonl; two evaluations can stand side by side, runs cannot")
    target = out or folders[-1] / ("report.html" if against is None else "comparison.html")
    _write(target, render(page))
    return target


def _refuse_other_files(out: Path) -> None:
    """A page is replaced, and so is an empty file. All else that lies there was not written by us."""
    if not out.is_file():
        return
    try:
        with out.open("rb") as file:
            beginning = file.read(100)
    except OSError as error:
        raise ReportError(f"{out} cannot be read: {error}; name another file with --out") from error
    if beginning and not beginning.lstrip().lower().startswith(b"<!doctype html"):
        raise ReportError(f"{out} is there and is no HTML page, so it is not replaced; name another file with --out")


def _write(target: Path, html: Iterable[str]) -> None:
    """Atomically; characters that UTF-8 cannot write are question marks."""
    try:
        with replacing(target) as partial, partial.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(html)
    except OSError as error:
        raise ReportError(f"the page cannot be written to {target}: {error}; name another file with --out") from error
