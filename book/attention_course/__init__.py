"""The code of the course: data sets, tasks, training, studies, experiments, exercises and drawings."""

from companion._checks import needs_extra

with needs_extra("book"):
    import numpy  # noqa: F401 - most of the course uses it, and the library does not
