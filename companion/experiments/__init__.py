"""Experiments on full data sets: ``python -m companion.experiments.NAME``."""
