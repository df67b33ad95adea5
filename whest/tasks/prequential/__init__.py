"""Prequential learning: how short a code a byte learner gives a text it reads once."""
