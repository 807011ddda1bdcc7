"""The code of the course: data sets, tasks, training, studies, experiments, exercises and drawings."""
