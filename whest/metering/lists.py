"""Price lists: by which table F is counted. `whest` is the default; others are tracks of their own.

`meter()` uses the list of the run that it is called in, so an estimator sizes itself by the prices it is charged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Literal

PriceList = Literal["whest", "xla"]
DEFAULT: PriceList = "whest"

XLA_LIST_VERSION = 1
"""Part of the protocol hash of `meter=xla`: raised whenever its counting changes."""
XLA_NAME = "xla-cost-analysis"

_CHOSEN: ContextVar[PriceList] = ContextVar("prices", default=DEFAULT)


def chosen() -> PriceList:
    """The list in force."""
    return _CHOSEN.get()


@contextmanager
def priced_by(prices: PriceList) -> Iterator[None]:
    """Count by this list in the block."""
    token = _CHOSEN.set(prices)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def use_prices(prices: str) -> None:
    """Count by this list for the rest of the process, which is a worker's."""
    _CHOSEN.set("xla" if prices == "xla" else DEFAULT)


def list_meter() -> dict[str, Any]:
    """`meter=xla` as part of the protocol. XLA's figures are those of a jaxlib."""
    return {"name": XLA_NAME, "version": XLA_LIST_VERSION, "jaxlib": version("jaxlib")}
