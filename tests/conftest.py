"""Settings of the whole suite."""

from hypothesis import settings

settings.register_profile("suite", deadline=None)  # a busy machine is no failure
settings.load_profile("suite")
