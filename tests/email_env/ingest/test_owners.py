"""An inbox is a person's: several addresses, and all that lies in their mailbox, whatever its headers say."""

import json
import mailbox
import random
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.cli import main
from email_env.errors import BuildError
from email_env.ingest.sources import open_source
from email_env.ingest.staging import Filters
from email_env.search.database import MailDatabase
from tests.email_env.mails import ANNA, BEN, CARO, DAN, build, mail, question, raw, tar_of

LIST = "all@lists.x.com"
EVER = "9999-12-31"


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


def test_the_folders_of_cmus_tree_lie_one_level_deeper(tmp_path):
    path = tmp_path / "mail.db"
    deeper = [replace(m, source=f"enron/maildir/{m.source}") for m in (*ANNAS, *BENS)]
    assert [owner.folders for owner in build(path, *deeper).owners] == [("anna",), ("ben",)]


def test_the_order_of_the_mail_does_not_matter(tmp_path):
    mails = [*ANNAS, *BENS]
    for seed in range(5):
        random.Random(seed).shuffle(mails)
        report = build(tmp_path / "mail.db", *mails)
        assert [(owner.address, owner.mails) for owner in report.owners] == [(ANNA, 6), (BEN, 4)]


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


def test_folders_of_one_persons_mail_are_theirs_whoever_else_is_in_them(tmp_path):
    """A folder about one friend, lists with and without their headers, and mail from before an address changed."""
    path = tmp_path / "mail.db"
    mails = lying("INBOX", *((f"i{n}", {"from_addr": f"p{n}@y.org", "to": (ANNA,)}) for n in range(8)))
    mails += lying("Ben", *((f"b{n}", {"from_addr": BEN, "to": (ANNA,)}) for n in range(6)), ("b6", {"to": (BEN, DAN)}))
    mails += lying("Ben", ("b7", {"from_addr": DAN, "to": (BEN,)}))  # she was in Bcc
    listed = {"to": ("users@lists.org",), "listed": True}
    mails += lying("Lists", *((f"l{n}", {"from_addr": f"q{n % 3}@y.org", **listed}) for n in range(30)))
    mails += lying("Sent", *((f"s{n}", {"to": (f"p{n}@y.org",)}) for n in range(5)))
    report = build(path, *mails)
    assert [(owner.address, owner.mails) for owner in report.owners] == [(ANNA, 51)]
    assert set(report.owners[0].folders) == {"INBOX", "Ben", "Lists", "Sent"}


def test_a_list_that_does_not_say_so_is_no_owner_beside_one_who_is_named(tmp_path):
    mails = lying("inbox", *((f"i{n}", {"from_addr": f"p{n}@y.org", "to": (ANNA,)}) for n in range(8)))
    mails += lying("memos", *((f"m{n}", {"from_addr": f"q{n}@y.org", "to": (LIST,)}) for n in range(4)))
    assert {owner.address for owner in build(tmp_path / "mail.db", *mails).owners} == {ANNA, LIST}
    (owner,) = build(tmp_path / "mail.db", *mails, owners=[(ANNA,)]).owners
    assert owner.mails == 12
    assert (
        len(
            build(
                tmp_path / "mail.db",
                *ANNAS,
                *BENS,
                mail("b9", from_addr=BEN, to=(DAN,), source="ben/9"),
                owners=[(ANNA,)],
            ).owners
        )
        == 2
    )


def test_a_smaller_mailbox_beside_a_large_one_is_not_taken_in(tmp_path):
    mails = [mail(f"a{n}", f"S{n}", source=f"anna/{n}", from_addr=f"p{n}@y.org", to=(ANNA,)) for n in range(50)]
    report = build(tmp_path / "mail.db", *mails, *BENS)
    assert {owner.address: owner.folders for owner in report.owners} == {ANNA: ("anna",), BEN: ("ben",)}


@pytest.mark.parametrize("labels", ["line {}", "row {}", ""])
def test_tables_without_folders_are_nobodys(tmp_path, labels):
    mails = [mail(f"m{n}", f"S{n}", source=labels.format(n)) for n in range(9)] + [mail("x", to=(CARO,), from_addr=DAN)]
    report = build(tmp_path / "mail.db", *mails)
    assert report.owners == []
    assert "x" not in ids(tmp_path / "mail.db", BEN)


def test_a_file_is_the_persons_on_most_of_its_mail_or_the_named_one(tmp_path):
    path = tmp_path / "mail.db"
    mails = [mail(f"a{n}", f"S{n}", source=f"message {n}", to=(ANNA,), from_addr=f"p{n}@y.org") for n in range(4)]
    others = [
        mail(f"o{n}", f"O{n}", source=f"message 1{n}", to=(f"q{n}@y.org",), from_addr=f"r{n}@y.org") for n in range(4)
    ]
    assert build(path, *mails, *others[:3]).owners[0].mails == 7
    assert build(path, *mails, *others).owners == []
    assert build(path, *mails, *others, owners=[(ANNA,)]).owners[0].mails == 8
    many = [
        mail(f"m{n}", f"M{n}", source=f"message 2{n}", to=(f"q{n}@y.org",), from_addr=f"s{n}@y.org") for n in range(12)
    ]
    assert build(path, *mails, *many, owners=[(ANNA,)]).owners[0].mails == 16
    assert build(path, *mails, *many, *others, owners=[(ANNA,)]).owners[0].mails == 4


@pytest.mark.parametrize("named", ["ben@y.org", DAN])
def test_the_archive_of_a_list_is_the_only_owners(tmp_path, named):
    message = "From {0} at y.org  Sat Jun  1 10:00:00 2024\nFrom: {0} at y.org ({0})\nMessage-ID: <{0}>\n\nNothing.\n\n"
    path = tmp_path / "2024-June.txt"
    path.write_text("".join(map(message.format, ("ben", "caro", "eva"))))
    (owner,) = build(tmp_path / "mail.db", *open_source(path).mails, owners=[(named,)]).owners
    assert (owner.address, ids(tmp_path / "mail.db", named)) == (named, ["ben", "caro", "eva"])


def test_mail_of_lists_alone_is_the_only_owners(tmp_path):
    listed = {"from_addr": "q@y.org", "to": ("users@lists.org",), "listed": True}
    lists = [mail(f"l{n}", f"L{n}", source=f"lists.mbox::message {n}", **listed) for n in range(4)]
    inbox = [
        mail(f"i{n}", f"I{n}", source=f"inbox.mbox::message {n}", to=(BEN,), from_addr=f"p{n}@y.org") for n in range(4)
    ]
    (owner,) = build(tmp_path / "mail.db", *lists, *inbox).owners
    assert (owner.address, owner.mails, set(owner.folders)) == (BEN, 8, {"inbox.mbox", "lists.mbox"})
    others = [
        mail(f"c{n}", f"C{n}", source=f"other.mbox::message {n}", to=(CARO,), from_addr=f"r{n}@y.org") for n in range(4)
    ]
    report = build(tmp_path / "mail.db", *lists, *inbox, *others)
    assert {owner.address: owner.mails for owner in report.owners} == {BEN: 4, CARO: 4}
    (owner,) = build(tmp_path / "mail.db", *lists, owners=[("anna@home.org", ANNA)]).owners
    assert (owner.address, owner.mails) == ("anna@home.org", 4)


def test_only_mail_of_the_inbox_asked_for_is_taken_with_what_lies_in_its_folder(tmp_path):
    path = tmp_path / "mail.db"
    report = build(path, *ANNAS, *BENS, filters=Filters(inboxes=(BEN,)))
    assert report.skipped == {"other_inbox": 5}
    assert ids(path, BEN) == ["a1", "b1", "b2", "b3"]
    with pytest.raises(BuildError, match=r"No mail of nobody@x\.com is left of 9"):
        build(path, *ANNAS, *BENS, filters=Filters(inboxes=(BEN, "nobody@x.com")))


def test_an_owner_nobody_wrote_to_is_an_error_and_writes_nothing(tmp_path):
    with pytest.raises(BuildError, match=r"No mail of nobody@x\.com is left of 6 from test\. Check --owner\."):
        build(tmp_path / "mail.db", *ANNAS, owners=[(ANNA,), ("nobody@x.com", "no@y.org")])
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_mail_of_a_folder_is_in_the_inbox_of_its_owner_on_its_day(tmp_path_factory, data):
    people = st.sampled_from([ANNA, BEN, CARO, DAN])
    drawn = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from("abc"), people, st.sets(people, max_size=2), st.integers(1, 4), st.integers(0, 3)
            ),
            min_size=1,
            max_size=25,
        )
    )
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
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "owner     ann@a.com, ann@b.com: 9 mails, all mail of " in result.output
    assert "owner     caro@x.com: 3 mails, all mail of office.tar.gz::caro\n" in result.output
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
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
        (["nobody@a.com"], "No mail of nobody@a.com is left"),
    ],
)
def test_a_wrong_owner_is_one_line_and_writes_nothing(tmp_path, owners, words):
    path = tar_of(tmp_path / "mail.tar", [("a/1.", message(1, "ben@x.com", "ann@a.com"))], "w")
    options = [word for owner in owners for word in ("--owner", owner)]
    result = CliRunner().invoke(main, [str(path), *options, "--out", str(tmp_path / "mail.db")])
    assert result.exit_code != 0
    assert words in result.stderr
    assert not (tmp_path / "mail.db").exists()
