"""Fixtures for every test: the command line, and the peer's interpreter."""

import pytest

pytest.register_assert_rewrite("tests.support")
pytest_plugins = ["tests.support.cli_harness", "tests.support.peer_harness"]
