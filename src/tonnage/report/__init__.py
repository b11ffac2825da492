"""Reports: what attempts used, as figures and as one self-contained HTML file."""
