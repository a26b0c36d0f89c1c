"""Modules and functions that the user names on the command line."""

import sys

import pytest

from grpo.errors import ConfigError
from grpo.machine.user_code import import_user_module, load_function


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, which is not on the path yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_module_is_found_from_the_current_directory_and_by_its_file(folder):
    (folder / "mine_one.py").write_text("value = 1\n")
    assert import_user_module("mine_one").value == 1
    (folder / "below").mkdir()
    (folder / "below" / "mine_two.py").write_text("value = 2\n")
    assert import_user_module("below/mine_two.py").value == 2
    assert load_function("mine_one:__repr__").__name__ == "__repr__"


def test_a_file_that_was_imported_before_under_its_packages_name_is_not_run_again(folder):
    (folder / "below").mkdir()
    (folder / "below" / "mine_four.py").write_text("value = [4]")
    by_package = import_user_module("below.mine_four")
    assert import_user_module("below/mine_four.py") is by_package
    (folder / "below" / "mine_five.py").write_text("value = [5]")
    by_file = import_user_module("below/mine_five.py")
    assert import_user_module("below.mine_five") is by_file


def test_what_cannot_be_imported_says_why(folder):
    (folder / "mine_broken.py").write_text("1 / 0\n")
    (folder / "mine_needy.py").write_text("import no_such_package\n")
    (folder / "mine_script.py").write_text("import sys\nsys.exit('usage: mine_script FILE')\n")
    (folder / "json.py").write_text("value = 3\n")
    for name, message in {
        "mine_missing": "there is no module 'mine_missing'",
        "missing.py": "there is no file missing.py",
        "mine_broken": "importing mine_broken failed: ZeroDivisionError: division by zero",
        "mine_needy": "importing mine_needy failed: No module named 'no_such_package'",
        "mine_script": "importing mine_script failed: SystemExit: usage: mine_script FILE",
        "json.py": "another module is named 'json'; rename the file",
    }.items():
        with pytest.raises(ConfigError, match=message):
            import_user_module(name)


def test_a_target_that_is_no_function_says_what_it_is(folder):
    (folder / "mine_three.py").write_text("limit = 3\n")
    for target, message in {
        "mine_three": "names no function; write pkg.mod:function",
        "mine_three:": "names no function",
        "mine_three:limit": "'limit' is no function but 3 in the module mine_three",
        "mine_three:brevity": "'brevity' does not exist in the module mine_three",
    }.items():
        with pytest.raises(ConfigError, match=message):
            load_function(target)
