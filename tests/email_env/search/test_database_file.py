"""The file of a mail database: who may open it, and what happens to its connections."""

import gc
import hashlib
import os
import pickle
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from email_env.errors import DatabaseError, DatabaseFormatError, DatabaseNotFoundError
from email_env.search.database import MailDatabase
from tests.email_env.mails import ANNA, BEN, CARO, DAN, build, mail
from tests.email_env.search.falcon import MAILS, ids


def test_the_metadata_says_what_was_built(db):
    assert db.metadata["source"] == "test"
    assert (db.metadata["read"], db.metadata["kept"], db.metadata["scenarios"]) == ("6", "6", "2")


def test_the_connection_writes_nothing_and_attaches_nothing(db, path):
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    connection = db.connection()
    for statement in ("DELETE FROM emails", "CREATE TABLE t (x)", "ATTACH ':memory:' AS other", "VACUUM"):
        with pytest.raises(sqlite3.Error):
            connection.execute(statement)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_a_database_works_from_a_folder_that_cannot_be_written(tmp_path):
    folder = tmp_path / "readonly"
    build(folder / "mail.db", *MAILS)
    folder.chmod(0o500)
    try:
        database = MailDatabase(folder / "mail.db")
        assert ids(database, ["friday"]) == ["m1"]
        database.close()
    finally:
        folder.chmod(0o700)


def test_it_pickles_and_reopens_after_close(db):
    copy = pickle.loads(pickle.dumps(db))
    assert ids(copy, ["friday"]) == ["m1"]
    copy.close()
    assert ids(copy, ["friday"]) == ["m1"]
    copy.close()
    assert copy.metadata == db.metadata


def test_every_thread_has_its_own_connection_which_ends_with_it(db):
    mine = db.connection()
    seen, results = [], []

    def work():
        seen.append(db.connection())
        results.append([ids(db, ["falcon", "budget"]) for _ in range(20)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[["m3", "m2", "m1"]] * 20] * 4
    assert len({id(connection) for connection in [mine, *seen]}) == 5
    del threads, thread
    gc.collect()
    for connection in seen:
        with pytest.raises(sqlite3.ProgrammingError):
            connection.execute("SELECT 1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_survives_a_fork(db):
    parent = db.connection()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        fine = db.connection() is not parent and ids(db, ["friday"]) == ["m1"]
        os.write(write_end, b"y" if fine else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 1) == b"y"
    os.close(read_end)
    os.close(write_end)
    assert ids(db, ["friday"]) == ["m1"]


def test_a_thread_that_comes_later_sees_no_other_database(tmp_path):
    path = tmp_path / "mail.db"
    build(path, mail("m1", "falcon", to=(BEN,)))
    db = MailDatabase(path)
    assert ids(db, ["falcon"]) == ["m1"]

    def in_a_thread():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(ids, db, ["falcon"]).result()

    assert in_a_thread() == ["m1"]
    build(path, mail("m2", "falcon", from_addr=DAN, to=(CARO,)), mail("m3", "falcon", from_addr=BEN, to=(ANNA,)))
    with pytest.raises(DatabaseError, match=r"mail.db' was replaced while it was in use. Start again"):
        in_a_thread()
    assert ids(db, ["falcon"]) == ["m1"]
    path.unlink()
    with pytest.raises(DatabaseNotFoundError, match=r"mail.db' cannot be opened .* put it back"):
        in_a_thread()
    db.close()


def test_a_missing_file_names_the_command_that_builds_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="build-enron-db demo --out") as caught:
        MailDatabase(tmp_path / "none.db")
    assert isinstance(caught.value, DatabaseNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_mail_database_is_refused(tmp_path):
    text, empty, other = tmp_path / "text.db", tmp_path / "empty.db", tmp_path / "other.db"
    text.write_text("not a database " * 100)
    empty.touch()
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    for path in (text, empty, other):
        with pytest.raises(DatabaseFormatError, match="is not a mail database"):
            MailDatabase(path)


def test_a_database_that_was_not_copied_to_its_end_is_refused(path, tmp_path):
    cut = tmp_path / "cut.db"
    cut.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DatabaseFormatError, match="is cut short"):
        MailDatabase(cut)
