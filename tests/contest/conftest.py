"""One contest for all tests of forgeries: they change copies of it."""

from pathlib import Path

import pytest

from tests.support.forgeries import closed_contest


@pytest.fixture(scope="session")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Closed, with two honest entries. A file with another contest has its own fixture of this name."""
    return closed_contest(tmp_path_factory.mktemp("closed"))
