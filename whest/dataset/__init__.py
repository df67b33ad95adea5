"""Datasets: where MLPs and their truth come from, and how they are stored."""
