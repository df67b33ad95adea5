"""How a run is shown: console, progress, tables and pictures."""
