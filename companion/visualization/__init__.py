"""Attention weights made visible: figures, shaded text, and an interactive table in HTML."""

from companion.visualization.alignments import Alignment
from companion.visualization.explorer import Explorer, explore, explore_many
from companion.visualization.plots import curves, heatmap, heatmaps, learning_curves
from companion.visualization.search_tree import tree
from companion.visualization.style import set_style
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
    "set_style",
    "text_heatmap",
    "tree",
]
