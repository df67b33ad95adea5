"""`job=doctor`: what it looks at."""
