"""Vocabulary, batches, and the data sets, a file each."""
