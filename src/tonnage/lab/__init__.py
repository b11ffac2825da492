"""The laboratory: strategies replayed on recorded data side by side, and the papers' experiments."""
