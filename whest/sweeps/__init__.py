"""Sweeps: many jobs from one command, with a table, a page and a way to resume."""
