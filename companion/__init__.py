"""Attention mechanisms as small, tested PyTorch modules, one file beside each chapter of the course.

Start with :mod:`companion.attention`: score the keys, normalise under a mask, average the values.
"""
