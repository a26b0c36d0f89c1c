"""Settings of the whole suite."""

import os
import signal

from hypothesis import settings

settings.register_profile("suite", deadline=None)  # a busy machine is no failure
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and children inherit it: the tests that press Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")  # importing trl would make it ERROR, for the servers of all tests
