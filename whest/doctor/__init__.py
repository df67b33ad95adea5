"""`job=doctor`: whether this installation can do its work, each finding with its remedy."""
