"""What the tests of launchers need. They fail without it: a test that skips would hide a hole."""

import importlib.util

import pytest


@pytest.fixture(autouse=True, scope="module")
def launchers() -> None:
    names = ("joblib_launcher", "submitit_launcher", "ray_launcher", "optuna_sweeper")
    wanted = ["psycopg", "hydra_plugins", *(f"hydra_plugins.hydra_{name}" for name in names)]
    missing = next((name for name in wanted if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        pytest.fail(f"{missing} is not installed: make launchers", pytrace=False)
