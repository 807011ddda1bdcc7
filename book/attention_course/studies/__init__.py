"""Recorded studies: sweeps of many small trainings, whose figures the chapters read."""

from attention_course.studies.recording import grid, record, recorded

__all__ = ["grid", "record", "recorded"]
