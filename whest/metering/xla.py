"""XLA's count beside ours: each equation lowered alone, not optimised, loops by rounds, the dearest branch.

A reader sees both figures and why they differ. XLA has no figure for LAPACK, for loops inside an operation and for some
generators: those count 0 and are listed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from whest.cost import Cost
from whest.files import write_atomically
from whest.metering.elementwise import ONE, SEVERAL
from whest.metering.internals import ClosedJaxpr, JaxprEqn
from whest.metering.jaxprs import Kind, kind
from whest.metering.jaxprs import Path as Place
from whest.metering.lists import DEFAULT, PEER_RELEASES, PriceList, chosen, is_peer_wanted
from whest.metering.lowered import Figure, lowered_figure
from whest.metering.peer import PeerCount, peer_count, peer_estimate
from whest.metering.prices import FREE, REFUSED
from whest.metering.signatures import Remembered
from whest.metering.walk import Estimate, Pricing, Tally, estimate_cost, walked


@dataclass(frozen=True)
class XlaCost:
    """XLA's figure for a program, and the operations it has none for."""

    flops: float
    unknown: tuple[str, ...]


NOTHING = Figure(0.0)

PER_ELEMENT = frozenset({*ONE, *SEVERAL, "rem", "integer_pow"})
"""Operations whose figure is so much per element, so one lowering serves every shape."""

SAMPLE = 8
"""Elements that such an operation is lowered with."""


class _Shaped(NamedTuple):
    shape: Any
    dtype: Any


class XlaFigures:
    """XLA's figure per signature: in memory, and in a file for each jaxlib that only trusted processes write."""

    def __init__(self) -> None:
        self._known: dict[str, Figure] = {}
        self._n_stored = 0
        self.of = Remembered(self._figure)

    def _figure(self, eqn: JaxprEqn) -> Figure:
        name = eqn.primitive.name
        if name in FREE or name in REFUSED:  # moving data is nothing to XLA too; a test holds the table to it
            return NOTHING
        inputs, outputs = [kind(var.aval) for var in eqn.invars], [kind(var.aval) for var in eqn.outvars]
        if name not in PER_ELEMENT or any(shape not in ((), outputs[0][0]) for shape, _ in inputs):
            return self._lowered(eqn, inputs)
        n = prod(outputs[0][0])
        sample = self._lowered(eqn, [((SAMPLE,) if shape else (), dtype) for shape, dtype in inputs])
        return Figure(sample.flops * n / (SAMPLE if outputs[0][0] else 1), sample.unknown)

    def _lowered(self, eqn: JaxprEqn, inputs: Sequence[Kind]) -> Figure:
        key = _key(eqn, inputs)
        if key not in self._known:
            self._known[key] = lowered_figure(eqn.primitive, [_Shaped(*it) for it in inputs], eqn.params)
        return self._known[key]

    def load(self, folder: Path) -> None:
        """Add the figures that a trusted process kept there; a damaged file is as good as none."""
        try:
            kept = json.loads(_file(folder).read_text())
            self._known |= {key: Figure(**fields) for key, fields in kept.items()}
            self._n_stored = len(self._known)
        except (OSError, ValueError, TypeError, AttributeError):
            return

    def save(self, folder: Path) -> None:
        """Keep what was learnt since the last time."""
        if len(self._known) == self._n_stored:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(folder), json.dumps({key: asdict(it) for key, it in self._known.items()}).encode())
        self._n_stored = len(self._known)


def _file(folder: Path) -> Path:
    return folder / f"xla_figures-{version('jaxlib')}.json"


def _key(eqn: JaxprEqn, inputs: Sequence[Kind]) -> str:
    """A signature as text that is the same in every process."""
    told = [(name, _text(value)) for name, value in sorted(eqn.params.items())]
    return sha256(repr((eqn.primitive.name, list(inputs), told)).encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    return getattr(value, "name", "") if type(value).__name__ == "PRNGImpl" else str(value)


FIGURES = XlaFigures()


@dataclass(frozen=True)
class Counted:
    """A program by the table and by XLA, as far as its text tells."""

    estimate: Estimate
    xla: Estimate
    unknown: tuple[str, ...]
    prices: PriceList = DEFAULT
    """The list whose charges are F."""
    peer: PeerCount | None = None
    """The same by the peer's list, if it was wanted."""

    @property
    def loops(self) -> Mapping[Place, Tally]:
        """Loops whose rounds depend on the data, in the order they stand."""
        return self.estimate.loops

    def cost(self, rounds: Sequence[int] = ()) -> Cost:
        """The cost once the loops' rounds are known; a lower bound without them."""
        charged = self.xla if self.prices == "xla" else self.estimate
        if self.prices in PEER_RELEASES:
            assert self.peer is not None
            charged = self.peer.estimate
        return replace(
            charged.cost(rounds),
            flops_xla=xla_flops(self.xla, rounds),
            xla_unknown=self.unknown,
            flops_peer=None if self.peer is None or self.peer.unpriced else xla_flops(self.peer.estimate, rounds),
            peer_unpriced=() if self.peer is None else self.peer.unpriced,
        )

    def rounds_alone(self) -> "Counted":
        """What the rounds add to the lower bound."""
        peer = None if self.peer is None else replace(self.peer, estimate=_loops_of(self.peer.estimate))
        return Counted(_loops_of(self.estimate), _loops_of(self.xla), (), self.prices, peer)


def _loops_of(estimate: Estimate) -> Estimate:
    return Estimate({}, estimate.loops)


def count(program: ClosedJaxpr) -> Counted:
    """Both counts of a traced program; the table comes first, since it refuses what can't be priced."""
    estimate = estimate_cost(program)
    return Counted(estimate, *xla_estimate(program), chosen(), _by_peer(program))


def _by_peer(program: ClosedJaxpr) -> PeerCount | None:
    if chosen() in PEER_RELEASES:
        return PeerCount(peer_estimate(program, chosen()), ())
    return peer_count(program) if is_peer_wanted() else None


def xla_cost(program: ClosedJaxpr, rounds: Sequence[int] = ()) -> XlaCost:
    """XLA's count for a traced program; the rounds of data-dependent loops in the order the meter lists them."""
    estimate, unknown = xla_estimate(program)
    return XlaCost(xla_flops(estimate, rounds), unknown)


def xla_estimate(program: ClosedJaxpr) -> tuple[Estimate, tuple[str, ...]]:
    """The walk of `estimate_cost` with XLA's figures, and the operations without one."""
    unknown: dict[str, None] = {}

    def figure(eqn: JaxprEqn) -> float:
        found: Figure = FIGURES.of(eqn)
        if found.unknown is not None:
            unknown[eqn.primitive.name] = None
        return found.flops

    return walked(program, Pricing(figure, lambda n: 0.0)), tuple(sorted(unknown))


def xla_flops(estimate: Estimate, rounds: Sequence[int] = ()) -> float:
    return float(sum(flops for flops, _ in estimate.total(rounds).values()))
