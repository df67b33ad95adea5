"""The checks of `job=doctor`."""
