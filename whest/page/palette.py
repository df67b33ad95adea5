"""The colours of all pictures, by meaning. On a page they follow the reader's light or dark theme."""

INK, ACCENT, MUTED, ALARM, GRID = "#1f2933", "#2563eb", "#9aa5b1", "#c2410c", "#e4e7eb"
SERIES = (ACCENT, ALARM, "#15803d", "#7e22ce", "#0e7490", "#be185d", "#854d0e", "#475569")
"""The colours of curves, in order. After the eighth, begin again with another marker."""
