"""Prequential learning: a byte learner reads a text once; its code length is the score."""
