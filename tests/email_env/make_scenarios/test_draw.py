from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.errors import ConfigurationError
from email_env.make_scenarios.draw import draw_mails, owners, split_by_inbox
from judges.answers.matching import says
from tests.email_env.mails import ANNA, BEN, CARO, DAN, mail, question

BODY = "A body that is long enough to be asked about, surely."
INBOXES = st.lists(st.from_regex(r"[a-z]{1,6}@[a-z]{1,3}\.com", fullmatch=True), min_size=1, max_size=60)


@given(INBOXES, st.integers())
def test_every_inbox_has_one_split_and_a_tenth_is_held_out_twice(inboxes, seed):
    splits = split_by_inbox(inboxes, seed)
    assert set(splits) == set(inboxes)
    count = {name: list(splits.values()).count(name) for name in ("train", "validation", "test")}
    total = len(splits)
    assert sum(count.values()) == total
    if total > 2:
        assert count["validation"] == count["test"] == max(1, round(total / 10))
    else:
        assert count == {"train": 1, "validation": 0, "test": total - 1}


@given(INBOXES, st.integers())
def test_the_split_depends_on_neither_order_nor_repetition(inboxes, seed):
    assert split_by_inbox([*reversed(inboxes), *inboxes], seed) == split_by_inbox(inboxes, seed)


def test_the_seed_decides_the_splits():
    inboxes = [f"p{n}@x.com" for n in range(40)]
    assert split_by_inbox(inboxes, 0) == split_by_inbox(inboxes, 0) != split_by_inbox(inboxes, 1)


def draws(database, **options):
    return list(draw_mails(database.connection(), **{"seed": 0, "min_mails": 1, **options}))


@pytest.fixture
def draw(built):
    shared = [mail(f"s{n}", f"Shared {n}", BODY + str(n), cc=(CARO,)) for n in range(6)]  # Anna, Ben and Caro have it
    database = built(
        *shared,
        *(mail(f"d{n}", f"For Dan {n}", BODY + f"d{n}", from_addr=DAN, to=()) for n in range(3)),
        mail("short", "Short", "Too short."),
        mail("undated", "Undated", BODY + "u", date_ok=False),
    )
    return partial(draws, database)


def test_every_fit_mail_is_drawn_once_whatever_inboxes_it_lies_in(draw):
    drawn = draw()
    assert sorted(d.message_id for d in drawn) == ["d0", "d1", "d2", *(f"s{n}" for n in range(6))]
    assert {d.inbox for d in drawn[:4]} == {ANNA, BEN, CARO, DAN}, "one of each inbox in turn"
    assert len({d.scenario_id for d in drawn}) == 9


def test_no_inbox_and_no_mail_is_in_two_splits(draw):
    for seed in range(10):
        drawn = draw(seed=seed)
        splits = {inbox: {d.split for d in drawn if d.inbox == inbox} for inbox in (ANNA, BEN, CARO, DAN)}
        assert all(len(found) == 1 for found in splits.values())
        assert sorted(next(iter(found)) for found in splits.values()) == ["test", "train", "train", "validation"]


def test_the_same_seed_draws_the_same_and_another_does_not(draw):
    assert draw(seed=3) == draw(seed=3)
    assert [d.message_id for d in draw(seed=3)] != [d.message_id for d in draw(seed=4)]


def test_small_inboxes_are_left_out_and_inboxes_can_be_chosen(draw):
    assert DAN not in {d.inbox for d in draw(min_mails=4)}
    assert [d.message_id[0] for d in draw(inboxes=[DAN])] == ["d"] * 3
    with pytest.raises(ConfigurationError, match=r"dan@y\.org: not 4 mails to ask about; the largest inbox has 6"):
        draw(inboxes=[DAN, BEN], min_mails=4)
    with pytest.raises(ConfigurationError, match=r"dan@y\.org: not 4 mails to ask about; the largest inbox has 3"):
        draw(inboxes=[DAN], min_mails=4)


def test_only_owners_are_asked_where_they_are_known(built):
    mails = [mail(f"b{n}", f"S{n}", BODY, to=(BEN,), source=f"ben/{n}") for n in range(6)]  # Anna has as much mail
    mails += [mail(f"d{n}", f"S{n}", BODY, to=(DAN,), from_addr="dan@home.org") for n in range(3)]
    asked = [question("asked", inbox=CARO, message_ids=())]
    database = built(*mails, owners=[(DAN, "dan@home.org")], scenarios=asked)
    assert {(d.inbox, d.message_id[0]) for d in draws(database)} == {(BEN, "b"), (DAN, "d")}
    assert {d.inbox for d in draws(database, min_mails=4)} == {BEN}
    assert {d.inbox for d in draws(database, inboxes=[ANNA])} == {ANNA}


def test_addresses_that_the_database_does_not_have_are_named_apart(draw, built):
    with pytest.raises(ConfigurationError) as caught:
        draw(inboxes=["zz@x", DAN, "aa@x"], min_mails=4)
    assert str(caught.value) == "No mail of aa@x, zz@x in the database. It names no owner. Name another --inbox."
    people = [f"p{n}@x.com" for n in range(7)]
    mails = [mail(f"m{n}", f"S{n}", to=(person,)) for n, person in enumerate(people)]
    owned = built(*mails, owners=[[person] for person in people])
    with pytest.raises(ConfigurationError) as caught:
        draws(owned, inboxes=["zz@x"])
    assert str(caught.value) == (
        "No mail of zz@x in the database. It is the mail of p0@x.com, p1@x.com, p2@x.com, p3@x.com, p4@x.com and 2 more."
        " Name another --inbox."
    )


def test_several_addresses_of_one_person_are_one_inbox(built):
    mails = [mail(f"b{n}", f"S{n}", BODY, to=(("ben@home.org", BEN)[n % 2],)) for n in range(10)]
    database = built(*mails, mail("c", "S", BODY, to=(CARO,)), owners=[("ben@home.org", BEN)])
    both = draws(database, inboxes={BEN, "ben@home.org"})
    assert {d.inbox for d in both} == {"ben@home.org"}
    assert Counter(d.split for d in both) == {"train": 7, "validation": 1, "test": 2}
    assert sorted(d.message_id for d in both) == [f"b{n}" for n in range(10)]
    others = draws(database, inboxes=[BEN, CARO, "ben@home.org"])
    assert sorted({(d.inbox, d.split) for d in others}) == [("ben@home.org", "train"), (CARO, "test")]


def test_a_single_inbox_is_divided_by_its_mails(built):
    database = built(*(mail(f"m{n}", f"S{n}", BODY) for n in range(40)), owners=[(BEN, "ben@home.org")])
    drawn = draws(database)
    splits = [d.split for d in drawn]
    assert Counter(splits) == {"train": 28, "validation": 4, "test": 8}
    assert splits[:3] == ["train"] * 3
    assert draws(database) == drawn


def test_whom_a_question_is_put_to_is_an_owner(built):
    database = built(mail("m1"), mail("m2", "S2", to=(CARO,)), scenarios=[question()])
    assert owners(database.connection()) == [BEN]


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("We meet on March 5, 2001 at 2:30 pm.", "5 March", True),
        ("We meet on March 5, 2001 at 2:30 pm.", "14:30", True),
        ("It costs $4,200.", "4200 dollars", True),
        ("Anna B. Keller signed.", "Anna Keller", False),
        ("Ask ANNA\nKELLER.", "Anna Keller", True),
        ("It costs $4,200.", "$42", False),
        ("Anything.", "...", False),
        ("项目预算是五万元。请在3月5日前回复", "五万元", True),
        ("项目预算是五万元。请在3月5日前回复", "3月5日", True),
        ("项目预算是五万元。请在13月5日前回复", "3月5日", False),
        ("予算は５０,０００円です", "50,000円", True),
        ("会議は田中さんが担当\nします", "担当します", True),
        ("회의는 3월 5일에 열립니다", "3월 5일", True),
        ("งบประมาณคือห้าร้อยบาท", "ห้าร้อยบาท", True),
        ("项目预算是五万元", "六万元", False),
    ],
)
def test_a_text_says_an_answer_word_for_word_or_as_a_value(text, answer, expected):
    assert says(text, answer) is expected
