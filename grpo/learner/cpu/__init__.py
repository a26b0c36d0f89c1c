"""Kernels that make the learner fast on CPUs; each has a plain form that tests hold it to."""
