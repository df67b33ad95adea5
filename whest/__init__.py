"""whest: score estimators of neural-network means under a compute budget."""

__version__ = "0.1.0"
