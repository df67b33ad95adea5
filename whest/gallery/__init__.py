"""The gallery: all runs, sweeps, comparisons and boards of an outputs folder, on one page and as a table."""
