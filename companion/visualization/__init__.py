"""Attention weights to look at: figures, shaded text, and an explorer in HTML."""

from companion.visualization.alignments import Alignment
from companion.visualization.explorer import Explorer, explore, explore_many
from companion.visualization.plots import (
    curves,
    heatmap,
    heatmaps,
    learning_curves,
    style,
    tree,
)
from companion.visualization.text import text_heatmap

__all__ = [
    "Alignment",
    "Explorer",
    "curves",
    "explore",
    "explore_many",
    "heatmap",
    "heatmaps",
    "learning_curves",
    "style",
    "text_heatmap",
    "tree",
]
