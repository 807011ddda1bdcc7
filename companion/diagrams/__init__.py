"""Drawings of the architectures, one module a chapter."""

from companion.diagrams.drawing import Drawing

__all__ = ["Drawing"]
