"""MLflow: the only package that talks to it."""
