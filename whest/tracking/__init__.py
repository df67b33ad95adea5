"""Tracking: the only package that uses MLflow."""
