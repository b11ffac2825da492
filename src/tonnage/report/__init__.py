"""Pictures: what attempts used, as figures, and as one HTML file that opens anywhere."""
