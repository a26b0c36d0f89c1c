"""Right answers in a wording that models choose: because, an owner's s, he for a name, will behind who does it."""

from judges.answers.matching import decide


def verdict(answer: str, accepted: tuple[str, ...], question: str) -> str:
    return decide(answer, accepted, question).verdict.value


def test_a_reason_may_have_its_because_and_an_owner_its_s():
    question = "Why was the trip to Vienna cancelled?"
    for reference in ("the train strike", "because of the train strike", "due to the train strike"):
        for said in (
            "because of the train strike",
            "The trip to Vienna was cancelled due to the train strike.",
            "train strike",
        ):
            assert verdict(said, (reference,), question) == "right"
        for said in ("despite the train strike", "not because of the train strike", "because of the train"):
            assert verdict(said, (reference,), question) == "undecided"
        assert verdict("because of the train strike", ("the train strike",), "What was cancelled?") == "undecided"
    for reference, said in (("Jim Poe's", "Jim Poe"), ("Jim Poe", "Jim Poe's"), ("Jim Poe's", "Jim Poe's laptop")):
        assert verdict(said, (reference,), "Whose laptop was stolen?") == "right"
    assert verdict("Jim Poe's wife", ("Jim Poe",), "Whose laptop was stolen?") == "undecided"
    assert verdict("Jim Poe's", ("Jim Poe",), "Who was hired?") == "undecided"


def test_will_may_stand_behind_who_does_it_and_he_may_stand_for_a_name():
    assert verdict("We can book the fare until 15 March.", ("15 March",), "Until when can we book the fare?") == "right"
    assert verdict("Bids should be sent to Mr. Okafor", ("Mr. Okafor",), "To whom should bids be sent?") == "right"
    assert verdict("She started working in May 2019", ("May 2019",), "When did Anna start working?") == "right"
    assert verdict("the agent must pay on 5 May", ("5 May",), "When must Tom pay the agent?") == "undecided"
    assert verdict("Anna will hire Bo", ("Bo",), "Who will hire Anna?") == "undecided"
    assert verdict("Yes, Anna has confirmed it", ("Yes",), "Did Anna confirm it?") == "right"
    assert verdict("No, it has not been sent", ("No",), "Was it sent?") == "right"
    assert verdict("No, it has been sent", ("No",), "Was it sent?") != "right"
