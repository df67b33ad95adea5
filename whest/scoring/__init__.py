"""Scoring rules: pure functions from a task's cases to a score."""
