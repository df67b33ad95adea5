"""Contracts as test cases: a test module subclasses one, names its subjects, and has every test of it."""
