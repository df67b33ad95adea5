"""Comparisons: several runs on the same cases, paired."""
