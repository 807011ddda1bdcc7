"""Recorded studies: sweeps of many small trainings, whose figures the chapters read."""

from companion.studies.recording import grid, record, recorded

__all__ = ["grid", "record", "recorded"]
