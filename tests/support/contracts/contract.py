"""What the contracts share: each test of a subclass runs once for each of its subjects."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import pytest


class Contract:
    """A subclass called `Test…` gives `subjects`; a test asks for one by its argument `subject`."""

    subjects: ClassVar[Mapping[str, Any]]
    """What the contract is held against, by the name that a test's id shows."""
    slow: ClassVar[Collection[str]] = ()
    """Names of those that only `make test-all` runs."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        unknown = set(self.slow) - set(self.subjects)
        assert self.subjects, f"{type(self).__name__}.subjects is empty: name what is to be tested"
        assert not unknown, f"{type(self).__name__}.slow names {sorted(unknown)}, which are not among its subjects"
        if "subject" in metafunc.fixturenames:
            metafunc.parametrize("subject", [self._parameter(name) for name in self.subjects], scope="class")

    def _parameter(self, name: str) -> Any:
        marks = [pytest.mark.slow] if name in self.slow else []
        return pytest.param(self.subjects[name], id=name, marks=marks)
