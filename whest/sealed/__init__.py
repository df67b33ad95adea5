"""Sealed programs: an estimator or a learner as one file of plain data, which anybody can read, meter and run."""
