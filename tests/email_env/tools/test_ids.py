"""Ids of mail as a model writes them, and their short form."""

from dataclasses import replace

import pytest

from email_env.tools.ids import long_id, short_id
from email_env.tools.toolbox import Toolbox
from tests.email_env.mails import CARO, mail, question
from tests.email_env.office import OPTIONS, answer, as_json, read, run, search

FIRST, LATER, TWIN, FOREIGN = "174.1075.JavaMail@thyme", "174.2099.JavaMail@thyme", "88.5@thyme", "88.6@thyme"


@pytest.fixture
def database(built):
    late = {"sent_at": "2003-01-01T09:00:00Z"}
    mails = [mail(FIRST, "Lunch"), mail(LATER, "Dinner", **late), mail(TWIN, "Tea")]
    return built(*mails, mail(FOREIGN, "Secret", to=(CARO,)), mail("m420"), mail("m4209", "Other"))


def test_read_and_answer_take_an_id_in_brackets_or_as_a_number(built):
    box, scenario = Toolbox(built(mail(FIRST, "Lunch"), mail("174", "Short")), OPTIONS), question(message_ids=(FIRST,))
    shown = run(box, read(f" <{FIRST}> "), scenario)
    assert (shown.read, shown.unknown_id) == ((FIRST,), False)
    assert "Subject: Lunch" in shown.text
    unknown = run(box, read("174.1075"), scenario)
    assert unknown.unknown_id
    assert "no mail '174.1075'" in unknown.text
    assert run(box, as_json("read_email", message_id=174), scenario).read == ("174",), "a number without quotes"
    assert run(box, as_json("return_final_answer", answer="x", sources=174), scenario).answer.sources == ("174",)
    ended = run(box, answer("Friday", FIRST, f"<{FIRST}>", "m9"), scenario)
    assert ended.answer.sources == (FIRST, "m9")


def test_long_ids_have_a_short_form_and_short_ones_are_their_own(database):
    numbers = dict(database.connection().execute("SELECT message_id, id FROM emails"))
    assert len(numbers) == 6
    for message_id, number in numbers.items():
        short = short_id(database, message_id)
        assert short == (f"m{number}" if len(message_id) > 12 else message_id)
        assert long_id(database, short) == message_id


@pytest.mark.parametrize("given", ["m0", "m99", "m01", "", "17", "m-1", "x1", f"m{10**18}", "\ud800", FIRST])
def test_what_is_no_short_form_stays(database, given):
    assert long_id(database, given) == given


def test_terse_results_list_short_ids_which_read_and_answer_take(database):
    scenario = question(message_ids=(FIRST,))
    short = short_id(database, FIRST)
    box = Toolbox(database, replace(OPTIONS, terse=True))
    found = run(box, search("Lunch"), scenario)
    assert found.text.startswith(f"{short} | ")
    assert found.found == (FIRST,)
    assert run(box, read(short), scenario).read == (FIRST,)
    assert run(box, answer("Friday", short), scenario).answer.sources == (FIRST,)
    assert run(box, read(short_id(database, LATER)), scenario).unknown_id, "it is of a later day"
    assert run(box, read("m99"), scenario).unknown_id


def test_results_that_are_not_terse_list_whole_ids_and_take_no_short_ones(database):
    scenario, box = question(message_ids=(FIRST,)), Toolbox(database, OPTIONS)
    assert run(box, search("Lunch"), scenario).text.startswith(f"{FIRST} | ")
    assert run(box, read(short_id(database, FIRST)), scenario).unknown_id
