"""The colours of every picture, by what they mean; on a page each follows the reader's light or dark theme."""

INK, ACCENT, MUTED, ALARM, GRID = "#1f2933", "#2563eb", "#9aa5b1", "#c2410c", "#e4e7eb"
SERIES = (ACCENT, ALARM, "#15803d", "#7e22ce", "#0e7490", "#be185d", "#854d0e", "#475569")
"""One after another for curves; take them round again after the eighth, with another marker."""
