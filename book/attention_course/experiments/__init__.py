"""Experiments on full data sets: ``python -m attention_course.experiments.NAME``."""
