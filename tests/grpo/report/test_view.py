"""`grpo-view`: where it writes, what it compares, and which files it replaces."""

from pathlib import Path

from click.testing import CliRunner

from grpo.cli.view import view
from tests.support.evaluations import run as run_eval
from tests.support.reports import make_run


def test_the_command_writes_the_page_where_it_is_told(tmp_path: Path) -> None:
    root = make_run(tmp_path / "run", episodes=3)
    shown = CliRunner().invoke(view, [str(root), "--out", str(tmp_path / "page.html")])
    assert shown.output == f"{tmp_path / 'page.html'}\n"
    assert "Held-out evaluation" in (tmp_path / "page.html").read_text()
    blocked = CliRunner().invoke(view, [str(root), "--out", str(root / "config.json" / "page.html")])
    assert blocked.exit_code == 1
    assert "name another file with --out" in blocked.stderr
    refused = CliRunner().invoke(view, [str(root), str(root)])
    assert refused.exit_code == 1
    assert "runs cannot" in refused.stderr


def test_evaluations_of_other_questions_need_to_be_told(tmp_path: Path) -> None:
    for count in (4, 5):
        run_eval("--agent", "oracle", "--limit", "4", "--out", str(tmp_path / str(count)), count=count)
    folders = [str(tmp_path / "4"), str(tmp_path / "5")]
    refused = CliRunner().invoke(view, folders)
    assert refused.exit_code == 1
    assert "env_kwargs.count: 4 in A, 5 in B" in refused.stderr
    assert CliRunner().invoke(view, [*folders, "--anyway"]).exit_code == 0
    assert (
        "The two did not ask the same: env_kwargs.count: 4 in A, 5 in B."
        in (tmp_path / "5/comparison.html").read_text()
    )


def test_only_a_page_or_an_empty_file_is_replaced(tmp_path: Path) -> None:
    run_eval("--agent", "oracle", "--limit", "4", "--out", str(tmp_path / "e"))
    results = tmp_path / "e" / "results.jsonl"
    database, page, empty = (tmp_path / name for name in ("mine.db", "page.html", "empty.html"))
    database.write_bytes(b"SQLite format 3\x00")
    page.write_text("\n<!DOCTYPE HTML>\n<p>old")
    empty.touch()
    for kept in (database, results):
        before = kept.read_bytes()
        refused = CliRunner().invoke(view, [str(tmp_path / "e"), "--out", str(kept)])
        assert refused.exit_code == 1
        assert f"{kept} is there and is no HTML page, so it is not replaced; name another file" in refused.stderr
        assert kept.read_bytes() == before
    for replaced in (page, empty, tmp_path / "new.html"):
        for _ in range(2):
            assert CliRunner().invoke(view, [str(tmp_path / "e"), "--out", str(replaced)]).exit_code == 0
        assert replaced.read_text().startswith("<!doctype html>\n")
        assert "<p>old" not in replaced.read_text()


def test_one_scenario_is_counted_as_one(tmp_path: Path) -> None:
    for agent, limit in (("wrong", "1"), ("oracle", "2")):
        run_eval("--agent", agent, "--limit", limit, "--out", str(tmp_path / agent), count=4)
    assert CliRunner().invoke(view, [str(tmp_path / "wrong"), str(tmp_path / "oracle")]).exit_code == 0
    page = (tmp_path / "oracle/comparison.html").read_text()
    assert "paired over 1 scenario." in page
    assert "1 scenario right with oracle alone, 0 with wrong alone;" in page
    assert "Left out of the comparison: 1 scenario of oracle alone (sum/" in page
