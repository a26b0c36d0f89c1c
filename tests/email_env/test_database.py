import gc
import hashlib
import os
import pickle
import re
import sqlite3
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.database import MailDatabase
from email_env.errors import (
    DatabaseFormatError,
    DatabaseNotFoundError,
    ToolInputError,
    UnknownInboxError,
)
from email_env.query import MAX_KEYWORD_CHARS, MAX_KEYWORDS
from tests.email_env.mails import ANNA, BEN, CARO, DAN, build, mail, question

MAILS = (
    mail("m1", "Falcon budget", "The Falcon budget is 40,000 dollars. Meet on Friday.", cc=(CARO,)),
    mail("m2", "Re: Falcon budget", "No, 50,000.", from_addr=BEN, to=(ANNA,), sent_at="2001-05-15T23:59:59Z"),
    mail("m3", "Lunch", "Budget of the falcon.", to=(BEN, DAN), sent_at="2001-05-16T00:00:00Z"),
    mail(
        "m4", "Café", "Über naïve p3 f1 budgets", from_addr=DAN, to=(CARO,), bcc=(BEN,), sent_at="2001-07-01T00:00:00Z"
    ),
    mail("m5", "Secret budget", "Only for Caro: falcon.", to=(CARO,), sent_at="2001-05-17T00:00:00Z"),
    mail("m6", "Old", "A falcon of old.", sent_at="0001-01-01T00:00:00Z", date_ok=False),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("database") / "mail #1?.db"  # characters that mean something in a URI
    build(path, *MAILS, scenarios=[question("b"), question("a", split="test")])
    return path


@pytest.fixture
def db(path):
    database = MailDatabase(path)
    yield database
    database.close()


def ids(db, keywords, inbox=BEN, until="2001-12-31", **options):
    return [hit.message_id for hit in db.search(inbox=inbox, keywords=keywords, until=until, **options)]


def test_all_keywords_are_required_and_the_newest_comes_first(db):
    assert ids(db, ["falcon", "budget"]) == ["m3", "m2", "m1"]
    assert ids(db, ["falcon", "friday"]) == ["m1"]
    assert ids(db, ["falcon", "giraffe"]) == []


def test_any_of_the_keywords_can_be_asked_for(db):
    assert ids(db, ["friday", "giraffe"], match="any") == ["m1"]
    assert ids(db, ["lunch", "friday", "secret"], match="any") == ["m3", "m1"]
    assert ids(db, ["falcon", "friday"], match="any", order="relevance")[0] == "m1"
    assert ids(db, ["giraffe"], match="any") == []


def test_a_keyword_of_several_words_is_a_phrase(db):
    assert ids(db, ["falcon budget"]) == ["m2", "m1"]
    assert ids(db, ["40,000 dollars"]) == ["m1"]


def test_case_and_accents_do_not_matter(db):
    assert ids(db, ["CAFE", "uber", "naive"]) == ["m4"]


def test_a_plain_string_is_one_keyword(db):
    assert ids(db, "falcon budget") == ["m2", "m1"]


def test_an_inbox_shows_what_it_sent_and_received_in_to_cc_and_bcc_and_nothing_else(db):
    assert ids(db, ["falcon"], inbox=ANNA) == ["m5", "m3", "m2", "m1", "m6"]
    assert ids(db, ["falcon"], inbox=CARO) == ["m5", "m1"]
    assert ids(db, ["falcon"], inbox=DAN) == ["m3"]
    assert ids(db, ["budgets"], inbox=BEN) == ["m4"]
    assert ids(db, ["falcon"], inbox=" Caro@X.com ") == ["m5", "m1"]


def test_nothing_after_the_query_date_exists(db):
    assert ids(db, ["falcon"], until="2001-05-15") == ["m2", "m1", "m6"]
    assert ids(db, ["falcon"], until="2001-05-14") == ["m1", "m6"]
    assert ids(db, ["falcon"], until="2001-05-13") == ["m6"]
    assert db.read("m3", inbox=BEN, until="2001-05-16") is not None
    assert db.read("m3", inbox=BEN, until="2001-05-15") is None


def test_sent_after_is_inclusive_and_sent_before_exclusive(db):
    assert ids(db, ["falcon"], sent_after="2001-05-15") == ["m3", "m2"]
    assert ids(db, ["falcon"], sent_before="2001-05-16") == ["m2", "m1", "m6"]
    assert ids(db, ["falcon"], sent_after="2001-05-15", sent_before="2001-05-16") == ["m2"]
    assert ids(db, ["falcon"], sent_after="2002-01-01") == []
    assert ids(db, ["falcon"], sent_before="0001-01-01") == []


def test_sender_and_recipient_filter_by_address(db):
    assert ids(db, ["falcon"], from_addr="<ANNA@x.com>") == ["m3", "m1", "m6"]
    assert ids(db, ["falcon"], to_addr=ANNA) == ["m2"]
    assert ids(db, ["falcon"], from_addr=ANNA, to_addr=CARO) == ["m1"]
    assert ids(db, ["falcon"], from_addr="nobody@x.com") == []


def test_a_hit_shows_one_line_around_the_words(db):
    (hit,) = db.search(inbox=BEN, keywords=["friday"], until="2001-12-31", snippet_words=3)
    assert (hit.sent_at, hit.from_addr, hit.from_name) == ("2001-05-14T09:00:00Z", ANNA, "Anna Keller")
    assert hit.subject == "Falcon budget"
    assert hit.snippet == "...Meet on Friday."
    assert "\n" not in hit.snippet


def test_max_results_takes_the_newest(db):
    assert ids(db, ["falcon"], max_results=1) == ["m3"]


def test_relevance_puts_a_hit_in_the_subject_first(db):
    assert ids(db, ["falcon"], order="relevance")[:2] != ids(db, ["falcon"])[:2]
    assert set(ids(db, ["falcon"], order="relevance")) == set(ids(db, ["falcon"]))
    assert ids(db, ["falcon"], order="relevance")[0] in {"m1", "m2"}


def test_read_gives_the_whole_mail_with_or_without_angle_brackets(db):
    email = db.read(" <m1> ", inbox=CARO, until="2001-12-31")
    assert email == db.read("m1", inbox=CARO, until="2001-12-31")
    assert email is not None
    assert (email.message_id, email.sent_at, email.from_addr) == ("m1", "2001-05-14T09:00:00Z", ANNA)
    assert (email.to, email.cc, email.bcc) == ((BEN,), (CARO,), ())
    assert (email.subject, email.body) == (MAILS[0].subject, MAILS[0].body)


@pytest.mark.parametrize("message_id", ["m5", "m99", "", "m1\x00", "\ud800", "' OR 1=1 --", "m" * 1_000_000])
def test_read_shows_nothing_of_other_inboxes_and_of_unknown_ids(db, message_id):
    assert db.read(message_id, inbox=BEN, until="2001-12-31") is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keywords": []}, "keywords must be a list"),
        ({"keywords": None}, "keywords must be a list"),
        ({"keywords": {"a": 1}}, "keywords must be a list"),
        ({"keywords": [""]}, "no letters or digits"),
        ({"keywords": ["budget", "?!*"]}, r"'\?!\*' has no letters"),
        ({"keywords": ["bud\x00get"]}, "plain words"),
        ({"keywords": ["\ud83d"]}, "plain words"),
        ({"keywords": [7]}, "must be a string, got 7"),
        ({"keywords": ["x" * (MAX_KEYWORD_CHARS + 1)]}, "80 characters, got 81"),
        ({"keywords": ["x"] * (MAX_KEYWORDS + 1)}, "At most 12 keywords, got 13"),
        ({"keywords": ["a b c d e"] * 5}, "At most 24 words over all keywords, got 25"),
        ({"from_addr": "Anna Keller"}, "from_addr must be an email address.*'Anna Keller'"),
        ({"to_addr": 5}, "to_addr must be an email address"),
        ({"sent_after": "last May"}, "sent_after must be a date like 2001-05-14, got 'last May'"),
        ({"sent_before": "20010514"}, "sent_before must be a date"),
        ({"sent_before": 10**6000}, "a huge int"),
        ({"sent_after": "2001-02-30"}, "sent_after must be a date"),
        ({"sent_after": "2001-05-16", "sent_before": "2001-05-16"}, "must be earlier than sent_before"),
        ({"max_results": 0}, "from 1 to 10, got 0"),
        ({"max_results": 11}, "from 1 to 10, got 11"),
        ({"max_results": True}, "from 1 to 10, got True"),
        ({"max_results": "5"}, "from 1 to 10, got '5'"),
        ({"order": "best"}, "newest"),
        ({"match": "some"}, 'match must be "all" or "any", got \'some\''),
        ({"snippet_words": 65}, "from 1 to 64"),
    ],
)
def test_arguments_that_cannot_be_used_are_explained(db, arguments, words):
    with pytest.raises(ToolInputError, match=words):
        db.search(**({"inbox": BEN, "keywords": ["budget"], "until": "2001-12-31"} | arguments))


@pytest.mark.parametrize(
    "keyword",
    [
        '"',
        'a" OR "b',
        "who : p1",
        "falcon*",
        "NEAR(falcon budget)",
        "subject:falcon",
        "^falcon",
        "-falcon",
        "falcon AND x",
    ],
)
def test_fts_syntax_is_plain_text(db, keyword):
    # a quoted phrase: what is no word falls away, and what is left must stand side by side in a mail
    words = re.findall(r"\w+", keyword)
    expected = ["m3", "m2", "m1", "m6"] if words == ["falcon"] else []
    if words:
        assert ids(db, [keyword]) == expected
    else:
        with pytest.raises(ToolInputError):
            ids(db, [keyword])


def test_words_of_the_participant_column_are_not_searched_and_cannot_be_forged(db):
    assert ids(db, ["p3", "f1"]) == ["m4"]  # only where the text says so
    assert ids(db, ["p1"]) == []


def test_an_unknown_inbox_is_the_harness_fault(db):
    with pytest.raises(UnknownInboxError, match=re.escape("'eve@x.com'")):
        ids(db, ["falcon"], inbox="eve@x.com")
    assert db.has_inbox("Anna@x.com")
    assert not db.has_inbox("eve@x.com")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(
    keywords=st.lists(st.text(st.characters(), max_size=20) | st.sampled_from(["falcon", "budget", '"']), max_size=4)
    | anything,
    options=st.fixed_dictionaries(
        {},
        optional={
            "from_addr": st.sampled_from([ANNA, BEN, DAN]) | anything,
            "to_addr": st.sampled_from([ANNA, BEN, DAN]) | anything,
            "sent_after": st.dates().map(str) | anything,
            "sent_before": st.dates().map(str) | anything,
            "max_results": st.integers(-1, 12) | anything,
        },
    ),
    inbox=st.sampled_from([ANNA, BEN, CARO, DAN]),
    until=st.sampled_from(["2001-05-14", "2001-05-16", "2001-12-31"]),
)
def test_a_search_shows_only_the_inbox_up_to_the_query_date_or_explains(path, keywords, options, inbox, until):
    by_id = {m.message_id: m for m in MAILS}
    database = MailDatabase(path)
    try:
        for hit in database.search(inbox=inbox, keywords=keywords, until=until, **options):
            found = by_id[hit.message_id]
            assert inbox in (found.from_addr, *found.to, *found.cc, *found.bcc)
            assert found.sent_at[:10] <= until
    except ToolInputError as error:
        str(error).encode()  # can be shown to a model
    finally:
        database.close()


def test_scenarios_come_in_their_order_and_by_split(db):
    assert db.scenarios() == [question("b"), question("a", split="test")]
    assert db.scenarios("test") == [question("a", split="test")]
    assert db.scenarios("validation") == []


def test_the_metadata_says_what_was_built(db):
    assert db.metadata["source"] == "test"
    assert (db.metadata["read"], db.metadata["kept"], db.metadata["scenarios"]) == ("6", "6", "2")


def test_the_connection_writes_nothing_and_attaches_nothing(db, path):
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    connection = db._connection()
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
    mine = db._connection()
    seen, results = [], []

    def work():
        seen.append(db._connection())
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
    parent = db._connection()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        fine = db._connection() is not parent and ids(db, ["friday"]) == ["m1"]
        os.write(write_end, b"y" if fine else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 1) == b"y"
    os.close(read_end)
    os.close(write_end)
    assert ids(db, ["friday"]) == ["m1"]


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


def test_importing_the_read_side_pulls_in_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys, email_env.database, email_env.cache, email_env.scenarios;"
        "print(*sorted({'click', 'rich', 'sqlite_utils', 'pydantic', 'torch'} & set(sys.modules)))"
    )
    # `email_env/__init__` registers the environment; what that imports is not this test's matter
    stub = "import sys, types; m = types.ModuleType('email_env'); m.__path__ = ['email_env']; sys.modules['email_env'] = m;"
    done = subprocess.run([sys.executable, "-c", stub + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
