"""Fixtures for every test: the command line, and the peer's interpreter."""

pytest_plugins = ["tests.support.cli_harness", "tests.support.peer_harness"]
