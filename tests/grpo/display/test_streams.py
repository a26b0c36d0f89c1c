"""What is said while something takes its time."""

import threading

from grpo.display.streams import said_if_slow
from tests.support.wait import wait_until


def test_what_takes_long_is_said_and_what_does_not_is_not(capsys):
    with said_if_slow("loading the mail", patience_seconds=0.05):
        said = wait_until(lambda: capsys.readouterr().err)
    assert said == "Loading the mail; the first time this may take a minute\n"
    others = threading.enumerate()
    with said_if_slow("loading the mail", patience_seconds=3600.0):
        (timer,) = [thread for thread in threading.enumerate() if thread not in others]
    timer.join(60)
    assert not timer.is_alive(), "it was called off"
    assert capsys.readouterr().err == ""
