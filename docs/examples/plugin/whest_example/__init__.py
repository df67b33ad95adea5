"""A plug-in for whest: an estimator, a scoring rule and a board."""
