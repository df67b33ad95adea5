"""Checks: does an estimator keep the contract, is this installation sound."""
