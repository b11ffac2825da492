"""Tonnage sizes, ranks and packs the jobs of a scientific workflow, runs them, and learns from every run."""

__all__ = ["__version__"]

__version__ = "0.1.0"
