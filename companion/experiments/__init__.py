"""Experiments on full data sets, each run as ``python -m companion.experiments.<name>``."""
