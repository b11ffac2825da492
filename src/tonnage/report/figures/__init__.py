"""Figures: numbers in, plain dictionaries out, which plotly draws in a browser (`static/pictures.js`).

A figure is ``{"title": ..., "data": [...], "layout": {...}}``; its colours are the names of CSS variables of
`static/style.css`. What comes from users is passed through `plain`, so that nothing in it is taken for a tag.
"""

from tonnage.report.figures.basics import Figure, Palette, escaped_json, plain
from tonnage.report.figures.histograms import histogram, histogram_of_counts

__all__ = ["Figure", "Palette", "escaped_json", "histogram", "histogram_of_counts", "plain"]
