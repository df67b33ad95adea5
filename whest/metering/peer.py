"""A JAX program by the peer's price list: the walk of the meter with flopscope's prices (`peerprices`)."""

from dataclasses import dataclass

from whest.errors import UnmeterableError
from whest.metering.internals import ClosedJaxpr, JaxprEqn
from whest.metering.lists import PEER_RELEASES
from whest.metering.origins import sources_of
from whest.metering.peerprices import Edition, draw_price, peer_price
from whest.metering.signatures import Remembered
from whest.metering.walk import Estimate, Pricing, walked

EDITIONS: dict[str, Edition] = {"flopscope": "0.12", "flopscope-0.7": "0.7", "flopscope-0.4": "0.4"}
"""Each list of the peer, by the last minor release that uses it."""

assert EDITIONS.keys() == PEER_RELEASES.keys()


@dataclass(frozen=True)
class PeerCount:
    """A program by the peer's list, and the operations it has no price for, which count 0."""

    estimate: Estimate
    unpriced: tuple[str, ...]


def _priced(edition: Edition) -> Remembered:
    def figure(eqn: JaxprEqn) -> tuple[float | None]:
        inputs, outputs = [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars]
        return (peer_price(eqn.primitive.name, inputs, outputs, eqn.params, edition),)

    return Remembered(figure)


_PRICES = {edition: _priced(edition) for edition in EDITIONS.values()}


def peer_count(program: ClosedJaxpr, prices: str = "flopscope") -> PeerCount:
    """The walk with the peer's prices. A choice by data is an `if` of Python there, and free."""
    edition, sources, unpriced = EDITIONS[prices], sources_of(program), dict[str, None]()

    def figure(eqn: JaxprEqn) -> float:
        role = sources.of(eqn)
        if role is not None:
            return draw_price(role, [var.aval for var in eqn.outvars], edition)
        (flops,) = _PRICES[edition](eqn)
        if flops is None:
            unpriced[eqn.primitive.name] = None
        return flops or 0.0

    return PeerCount(walked(program, Pricing(figure, lambda n: 0.0)), tuple(sorted(unpriced)))


def peer_estimate(program: ClosedJaxpr, prices: str) -> Estimate:
    """The same for a run that is ranked by it, which needs a price for everything."""
    found = peer_count(program, prices)
    if found.unpriced:
        raise UnmeterableError(
            f"meter={prices} has no price for {', '.join(f'`{name}`' for name in found.unpriced)}, because flopscope "
            "has no such call: write it with operations that NumPy has, or leave meter out"
        )
    return found.estimate
