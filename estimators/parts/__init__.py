"""Mathematics that several estimators share; nothing here is an estimator."""
