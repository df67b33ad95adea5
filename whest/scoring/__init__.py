"""Scoring rules: pure functions that make a score from a task's cases."""
