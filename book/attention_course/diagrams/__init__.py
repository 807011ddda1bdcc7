"""Drawings of the architectures, one module a chapter."""

from attention_course.diagrams.drawing import Drawing

__all__ = ["Drawing"]
