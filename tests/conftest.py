"""Fixtures for every test: the command line, and the peer's interpreter."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "whest-tests")  # a user's own defaults are not tested

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with Ctrl-C ignored

pytest.register_assert_rewrite("tests.support")
pytest_plugins = ["tests.support.cli_harness", "tests.support.peer_harness"]
