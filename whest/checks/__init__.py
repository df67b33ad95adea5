"""Checks of an estimator's contract (`job=validate`) and of the installation (`job=doctor`)."""
