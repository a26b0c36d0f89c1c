"""Checks of a machine before a run, each with what to do about its failure."""
