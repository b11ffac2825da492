"""The laboratory: deciders replayed on recorded data beside their rivals, and the papers' experiments."""
