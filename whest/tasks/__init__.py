"""Tasks: each yields cases for a scoring rule."""
