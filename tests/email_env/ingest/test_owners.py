"""An inbox is a person's: several addresses, and all that lies in their mailbox, whatever its headers say."""

import json
import mailbox
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import BuildError
from email_env.ingest.sources import open_source
from email_env.ingest.staging import Filters
from email_env.search.database import MailDatabase
from tests.email_env.mails import ANNA, BEN, CARO, DAN, build, mail, question, raw, run, tar_of

LIST = "all@lists.x.com"
EVER = "9999-12-31"
PEOPLE = st.sampled_from([ANNA, BEN, CARO, DAN])


def ids(path, inbox, **search):
    database = MailDatabase(path)
    try:
        hits = database.search(inbox=inbox, keywords=["nothing"], until=EVER, **search)
        return sorted(hit.message_id for hit in hits)
    finally:
        database.close()


def lying(folder, *mails):
    """The mails, each in a file of the folder."""
    return [mail(name, f"S{name}", source=f"{folder}/{name}", **fields) for name, fields in mails]


def many(name, count, source, sender, *to, **fields):
    """Mails `name`0, `name`1, ...: `{}` stands for the number."""
    return [
        mail(
            f"{name}{n}",
            f"S{name}{n}",
            source=source.format(n),
            from_addr=sender.format(n),
            to=tuple(address.format(n) for address in to),
            **fields,
        )
        for n in range(count)
    ]


ANNAS = lying(
    "anna/inbox",
    ("a1", {"from_addr": BEN, "to": (ANNA,)}),
    ("a2", {"from_addr": CARO, "to": (ANNA, DAN)}),
    ("a3", {"from_addr": "boss@x.com", "to": (LIST,)}),
    ("a4", {"from_addr": "boss@x.com", "to": ()}),  # she was in Bcc
) + lying("anna/sent", ("a5", {"to": (DAN,)}), ("a6", {"to": (CARO, "eve@y.org")}))
BENS = lying(
    "ben/inbox",
    ("b1", {"from_addr": CARO, "to": (BEN,)}),
    ("b2", {"from_addr": DAN, "to": ("eve@y.org",)}),
    ("b3", {"from_addr": "eve@y.org", "to": (BEN,)}),
)


def test_each_folder_of_a_tree_has_its_owner_who_has_all_its_mail(tmp_path):
    path = tmp_path / "mail.db"
    report = build(path, *ANNAS, *BENS)
    assert [(o.address, o.folders, o.mails) for o in report.owners] == [(ANNA, ("anna",), 6), (BEN, ("ben",), 4)]
    assert ids(path, ANNA) == ["a1", "a2", "a3", "a4", "a5", "a6"]
    assert ids(path, BEN) == ["a1", "b1", "b2", "b3"]
    assert ids(path, CARO) == ["a2", "a6", "b1"], "who owns no folder has what names them"
    assert ids(path, ANNA, to_addr=ANNA) == ["a1", "a2"], "a list's mail names the list"


def test_neither_the_order_of_the_mail_nor_folders_above_cmus_tree_matter(tmp_path):
    mails = [*ANNAS, *BENS]
    owners = build(tmp_path / "mail.db", *mails).owners
    deeper = [replace(m, source=f"enron/maildir/{m.source}") for m in mails]
    for seed in range(4):
        random.Random(seed).shuffle(mails)
        assert build(tmp_path / "mail.db", *mails).owners == owners
    assert build(tmp_path / "mail.db", *deeper).owners == owners


def test_a_person_has_the_mail_of_all_their_addresses(tmp_path):
    path, home, old = tmp_path / "mail.db", "anna@home.org", "akeller@old.net"
    mails = [
        mail("m1", "S1", from_addr=BEN, to=(ANNA,), source="line 1"),
        mail("m2", "S2", from_addr=BEN, to=(home,), source="line 2"),
        mail("m3", "S3", from_addr=home, to=(CARO,), source="line 3"),
        mail("m4", "S4", from_addr=BEN, to=(CARO,), source="line 4"),
    ]
    report = build(path, *mails, owners=[(ANNA, home, old)], scenarios=[question(inbox=old, message_ids=("m2",))])
    assert [(o.address, o.aliases, o.folders, o.mails) for o in report.owners] == [(ANNA, (home, old), (), 3)]
    assert report.scenario_misfits == {}
    for inbox in (ANNA, home, old):
        assert ids(path, inbox) == ["m1", "m2", "m3"]
        assert ids(path, CARO, from_addr=inbox) == ["m3"]
        assert ids(path, BEN, to_addr=inbox) == ["m1", "m2"]


def test_a_name_counts_for_all_addresses_of_a_person(tmp_path):
    mails = [
        mail("m1", "S1", from_addr=BEN, to=(ANNA,), names=((ANNA, "Anna Keller"),)),
        mail("m2", "S2", from_addr=BEN, to=("ak1@home.org",)),
    ]
    build(tmp_path / "mail.db", *mails, owners=[(ANNA, "ak1@home.org")])
    assert ids(tmp_path / "mail.db", BEN, to_addr="Anna Keller") == ["m1", "m2"]


def test_the_mail_that_a_server_delivered_is_in_the_inbox(tmp_path):
    path = tmp_path / "mail.db"
    listed = {"from_addr": "boss@x.com", "to": (LIST,), "listed": True}
    mails = [mail(f"m{n}", f"S{n}", delivered=(person,), **listed) for n, person in enumerate((ANNA, BEN, ANNA))]
    build(path, *mails)
    assert ids(path, ANNA) == ids(path, ANNA, to_addr=ANNA) == ["m0", "m2"]


def test_one_message_in_two_mailboxes_is_in_both_inboxes(tmp_path):
    path = tmp_path / "mail.db"
    to_all = {"from_addr": "boss@x.com", "to": (LIST,)}
    both = [mail("all", "To all", source=f"{name}/inbox/9", **to_all) for name in ("anna", "ben")]
    delivered = mail("late", "Late", **to_all, delivered=(CARO,))
    again = mail("late", "Late", **to_all, delivered=(DAN,))
    report = build(path, *ANNAS, both[0], *BENS, both[1], delivered, again)
    assert report.skipped == {"duplicate_message_id": 2}
    assert "all" in ids(path, ANNA)
    assert "all" in ids(path, BEN)
    assert (ids(path, CARO, to_addr=CARO), ids(path, DAN, to_addr=DAN)) == (["a6", "late"], ["a2", "a5", "late"])


def test_copies_under_other_ids_stay_in_the_inbox_of_each_owner(tmp_path):
    path = tmp_path / "mail.db"
    to_all = {"from_addr": "boss@x.com", "to": (LIST,)}
    copies = [mail(f"all{name}", "To all", source=f"{name}/inbox/9", **to_all) for name in ("anna", "anna", "ben")]
    copies[1] = mail("all2", "To all", source="anna/all/9", **to_all)
    report = build(path, *ANNAS, *BENS, *copies)
    assert report.skipped == {"duplicate_content": 1}
    assert len(ids(path, ANNA)) == 7
    assert len(ids(path, BEN)) == 5


INBOX = many("i", 8, "INBOX/{}", "p{}@y.org", ANNA)
MIXED = [  # a folder about one friend, and lists
    *INBOX,
    *many("b", 6, "Ben/{}", BEN, ANNA),
    *lying("Ben", ("b6", {"to": (BEN, DAN)}), ("b7", {"from_addr": DAN, "to": (BEN,)})),  # she was in Bcc
    *many("l", 30, "Lists/{}", "q{}@y.org", "users@lists.org", listed=True),
    *many("s", 5, "Sent/{}", ANNA, "p{}@y.org"),
]
MEMOS = many("m", 4, "memos/{}", "q{}@y.org", LIST)  # a list that does not say so
FILE = many("a", 4, "message {}", "p{}@y.org", ANNA)
OTHERS = many("o", 4, "message 1{}", "r{}@y.org", "q{}@y.org")
MORE = many("m", 12, "message 2{}", "s{}@y.org", "q{}@y.org")
LISTS = many("l", 4, "lists.mbox::message {}", "q@y.org", "users@lists.org", listed=True)
BOX = many("i", 4, "inbox.mbox::message {}", "p{}@y.org", BEN)
OTHER_BOX = many("c", 4, "other.mbox::message {}", "r{}@y.org", CARO)


@pytest.mark.parametrize(
    ("mails", "named", "owners"),
    [
        pytest.param(MIXED, [], {ANNA: 51}, id="all folders of one person's mail"),
        pytest.param([*INBOX, *MEMOS], [], {ANNA: 8, LIST: 4}, id="a list that does not say so"),
        pytest.param([*INBOX, *MEMOS], [(ANNA,)], {ANNA: 12}, id="such a list beside one who is named"),
        pytest.param(
            [*ANNAS, *BENS, mail("b9", from_addr=BEN, to=(DAN,), source="ben/9")],
            [(ANNA,)],
            {ANNA: 6, BEN: 5},
            id="somebody who wrote beside one who is named",
        ),
        pytest.param([*many("a", 50, "anna/{}", "p{}@y.org", ANNA), *BENS], [], {ANNA: 50, BEN: 3}, id="a small one"),
        pytest.param([*FILE, *OTHERS[:3]], [], {ANNA: 7}, id="a file: who is on most of its mail"),
        pytest.param([*FILE, *OTHERS], [], {}, id="a file: nobody is on most"),
        pytest.param([*FILE, *OTHERS], [(ANNA,)], {ANNA: 8}, id="a file: who is named"),
        pytest.param([*FILE, *MORE], [(ANNA,)], {ANNA: 16}, id="a file: who is named and on a quarter"),
        pytest.param([*FILE, *MORE, *OTHERS], [(ANNA,)], {ANNA: 4}, id="a file: who is named and on less"),
        pytest.param([*LISTS, *BOX], [], {BEN: 8}, id="mail of lists is the only owner's"),
        pytest.param([*LISTS, *BOX, *OTHER_BOX], [], {BEN: 4, CARO: 4}, id="mail of lists beside two owners"),
        pytest.param(LISTS, [("anna@home.org", ANNA)], {"anna@home.org": 4}, id="mail of lists alone"),
    ],
)  # fmt: skip
def test_whose_mail_it_is(tmp_path, mails, named, owners):
    report = build(tmp_path / "mail.db", *mails, owners=named)
    assert {owner.address: owner.mails for owner in report.owners} == owners
    if mails is MIXED:
        assert set(report.owners[0].folders) == {"INBOX", "Ben", "Lists", "Sent"}


@pytest.mark.parametrize("labels", ["line {}", "row {}", ""])
def test_tables_without_folders_are_nobodys(tmp_path, labels):
    mails = [*many("m", 9, labels, ANNA, BEN), mail("x", to=(CARO,), from_addr=DAN)]
    assert build(tmp_path / "mail.db", *mails).owners == []
    assert "x" not in ids(tmp_path / "mail.db", BEN)


@pytest.mark.parametrize("named", ["ben@y.org", DAN])
def test_the_archive_of_a_list_is_the_only_owners(tmp_path, named):
    message = "From {0} at y.org  Sat Jun  1 10:00:00 2024\nFrom: {0} at y.org ({0})\nMessage-ID: <{0}>\n\nNothing.\n\n"
    path = tmp_path / "2024-June.txt"
    path.write_text("".join(map(message.format, ("ben", "caro", "eva"))))
    (owner,) = build(tmp_path / "mail.db", *open_source(path).mails, owners=[(named,)]).owners
    assert (owner.address, ids(tmp_path / "mail.db", named)) == (named, ["ben", "caro", "eva"])


def test_only_mail_of_the_inbox_asked_for_is_taken_with_what_lies_in_its_folder(tmp_path):
    path = tmp_path / "mail.db"
    report = build(path, *ANNAS, *BENS, filters=Filters(inboxes=(BEN,)))
    assert report.skipped == {"other_inbox": 5}
    assert ids(path, BEN) == ["a1", "b1", "b2", "b3"]
    with pytest.raises(BuildError, match=r"No mail of nobody@x\.com is left of 9"):
        build(tmp_path / "none.db", *ANNAS, *BENS, filters=Filters(inboxes=(BEN, "nobody@x.com")))
    assert list(tmp_path.iterdir()) == [path]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), PEOPLE, st.sets(PEOPLE, max_size=2), st.integers(1, 4), st.integers(0, 3)),
        min_size=1,
        max_size=25,
    )
)
def test_every_mail_of_a_folder_is_in_the_inbox_of_its_owner_on_its_day(tmp_path_factory, drawn):
    mails = [
        mail(
            f"m{n}",
            f"S{s}",
            from_addr=sender,
            to=tuple(sorted(to)),
            sent_at=f"2001-05-0{day}T00:00:00Z",
            source=f"{box}/{n}",
        )
        for n, (box, sender, to, day, s) in enumerate(drawn)
    ]
    path = tmp_path_factory.mktemp("owners") / "mail.db"
    report = build(path, *mails)
    database = MailDatabase(path)
    for owner in report.owners:
        for sent in (m for m in mails if m.source[0] in owner.folders):
            hits = database.search(inbox=owner.address, keywords=["nothing"], until=sent.sent_at[:10], max_results=10)
            assert (sent.from_addr, sent.subject) in {(hit.from_addr, hit.subject) for hit in hits} or len(hits) == 10
    database.close()


def message(number, sender, to, extra=""):
    return raw(
        f"Message-ID: <{number}@x>\nFrom: {sender}\nTo: {to}\nSubject: S{number}\n{extra}", f"Nothing {number}.\n"
    )


def test_owners_of_real_files_are_named_found_and_shown(tmp_path):
    box = mailbox.Maildir(tmp_path / "Maildir")
    for n in range(3):
        box.add(message(n, "ben@x.com", "ann@a.com"))
    box.add(message(3, "boss@x.com", "undisclosed-recipients:;"))
    lists = box.add_folder("lists")
    for n in range(4, 8):
        lists.add(message(n, "q@y.org", "users@lists.org", "List-Id: <users.lists.org>"))
    tree = tar_of(
        tmp_path / "office.tar.gz",
        [(f"maildir/caro/inbox/{n}.", message(f"c{n}", f"p{n}@y.org", "caro@x.com")) for n in range(3)]
        + [(f"maildir/dan/inbox/{n}.", message(f"d{n}", f"p{n}@y.org", "dan@x.com")) for n in range(2)],
    )
    inbox = tmp_path / "work.mbox"
    inbox.write_bytes(b"From x Mon May 14 16:39:00 2001\n" + message(9, "q@y.org", "Ann <ANN@b.com>"))
    out = tmp_path / "mail.db"
    arguments = [tmp_path / "Maildir", tree, inbox, "--owner", "Ann@a.com, ann@b.com", "--out", out]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "owner     ann@a.com, ann@b.com: 9 mails, all mail of " in result.output
    assert "owner     caro@x.com: 3 mails, all mail of office.tar.gz::caro\n" in result.output
    result = run(*arguments, "--json")
    owners = {owner["address"]: owner for owner in json.loads(result.stdout)["owners"]}
    assert owners["ann@a.com"]["aliases"] == ["ann@b.com"]
    assert set(owners["ann@a.com"]["folders"]) == {"Maildir::new", "Maildir::.lists", "work.mbox"}
    assert {address: owner["mails"] for address, owner in owners.items()} == {
        "ann@a.com": 9,
        "caro@x.com": 3,
        "dan@x.com": 2,
    }
    assert len(ids(out, "ann@b.com")) == 9


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        (["ann"], "'ann' is no address"),
        (["ann@a.com,"], "'' is no address"),
        (["ann@a.com ann@b.com"], "'ann@a.com ann@b.com' is no address"),
        (["ann@a.com,ben@x.com", "ben@x.com"], "ben@x.com belongs to two owners"),
        (
            ["ben@x.com", "nobody@a.com,no@y.org"],
            "No mail of nobody@a.com is left of 1 from {}. Check --owner. Nothing",
        ),
    ],
)
def test_a_wrong_owner_is_one_line_and_writes_nothing(tmp_path, owners, words):
    path = tar_of(tmp_path / "mail.tar", [("a/1.", message(1, "ben@x.com", "ann@a.com"))], "w")
    options = [word for owner in owners for word in ("--owner", owner)]
    result = run(path, *options, "--out", tmp_path / "mail.db")
    assert result.exit_code != 0
    assert words.format(path) in result.stderr
    assert not (tmp_path / "mail.db").exists()
