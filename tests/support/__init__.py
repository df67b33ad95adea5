"""Shared by tests: harnesses, generated data, hostile programs."""
