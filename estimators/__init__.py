"""The bundled estimators: one file and one `conf/estimator` YAML each. Start your own from `monte_carlo.py`."""
