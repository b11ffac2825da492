"""Figures: functions that turn numbers into dictionaries, which plotly draws in a browser (`static/pictures.js`).

A figure is ``{"title": ..., "data": [...], "layout": {...}}``; its colours are the names of CSS variables in
`static/style.css`. Text from users is passed through `plain`, so that nothing in it is taken for a tag.
"""

from tonnage.report.figures.basics import Figure, Palette, escaped_json, plain
from tonnage.report.figures.graphs import category_graph, task_graph
from tonnage.report.figures.histograms import counts_by_category, histogram, histogram_of_counts
from tonnage.report.figures.over_time import Bar, committed_and_used, lanes, running_by_category
from tonnage.report.figures.scatters import peak_against_input, peaks_scatter

__all__ = [
    "Bar",
    "Figure",
    "Palette",
    "category_graph",
    "committed_and_used",
    "counts_by_category",
    "escaped_json",
    "histogram",
    "histogram_of_counts",
    "lanes",
    "peak_against_input",
    "peaks_scatter",
    "plain",
    "running_by_category",
    "task_graph",
]
