"""What is said while something takes its time."""

import time

from grpo.display.waiting import said_if_slow


def test_what_takes_long_is_said_and_what_does_not_is_not(capsys):
    with said_if_slow("loading the mail", patience_seconds=0.05):
        time.sleep(0.5)
    assert capsys.readouterr().err == "Loading the mail; the first time this may take a minute\n"
    with said_if_slow("loading the mail", patience_seconds=0.3):
        pass
    time.sleep(0.5)
    assert capsys.readouterr().err == ""
