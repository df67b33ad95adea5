"""Price lists: by which table F is counted. `whest` is the default; others are tracks of their own.

`meter()` uses the list of the run that it is called in, so an estimator sizes itself by the prices it is charged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Literal, get_args

PriceList = Literal["whest", "xla", "flopscope", "flopscope-0.7", "flopscope-0.4"]
DEFAULT: PriceList = "whest"

XLA_LIST_VERSION = 1
"""Part of the protocol hash of `meter=xla`: raised whenever its counting changes."""
XLA_NAME = "xla-cost-analysis"

PEER_LIST_VERSION = 1
"""Part of the protocol hash of `meter=flopscope`: raised whenever its counting changes."""
PEER_NAME = "flopscope-prices"
PEER_RELEASES: dict[str, tuple[str, str]] = {
    "flopscope": ("0.9.0", "0.12.4"),
    "flopscope-0.7": ("0.5.0", "0.7.0"),
    "flopscope-0.4": ("0.2.0", "0.4.3"),
}
"""The first and the last release of flopscope that bills by each list."""

BESIDE = "+flopscope"
"""After a list's name: the peer's figure is wanted beside F."""

_CHOSEN: ContextVar[PriceList] = ContextVar("prices", default=DEFAULT)
_BESIDE: ContextVar[bool] = ContextVar("beside", default=False)


def chosen() -> PriceList:
    """The list in force."""
    return _CHOSEN.get()


def is_peer_wanted() -> bool:
    """Whether the peer's figure is wanted beside F."""
    return _BESIDE.get()


@contextmanager
def priced_by(prices: str) -> Iterator[None]:
    """Count by this list in the block."""
    token, beside = _CHOSEN.set(_list_of(prices)), _BESIDE.set(prices.endswith(BESIDE))
    try:
        yield
    finally:
        _CHOSEN.reset(token)
        _BESIDE.reset(beside)


def use_prices(prices: str) -> None:
    """Count by this list for the rest of the process, which is a worker's."""
    _CHOSEN.set(_list_of(prices))
    _BESIDE.set(prices.endswith(BESIDE))


def _list_of(prices: str) -> PriceList:
    named = prices.removesuffix(BESIDE)
    for known in get_args(PriceList):
        if known == named:
            return known
    raise ValueError(f"no price list is called {named!r}: {', '.join(get_args(PriceList))}")


def list_meter(prices: str = "xla") -> dict[str, Any]:
    """Another list as part of the protocol. XLA's figures are those of a jaxlib, the peer's of its releases."""
    if prices == "xla":
        return {"name": XLA_NAME, "version": XLA_LIST_VERSION, "jaxlib": version("jaxlib")}
    return {"name": PEER_NAME, "version": PEER_LIST_VERSION, "releases": list(PEER_RELEASES[prices])}
