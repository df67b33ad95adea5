"""How many neurons of a layer the sources of third cumulants have to keep.

A neuron far from its threshold, |α| > 2.5 with α = μ/σ of its pre-activation, is nearly linear or nearly dead: it bends
too little to be the hub of a source, and a dead one (α < −2.5) passes nothing of the older sources on. Shapes of a
program are fixed, so the numbers must be known before the weights are. In a wide network α ~ N(0, c/(1 − c)), with c
the correlation between the pre-activations of two independent inputs. It follows the arc-cosine kernel of Cho and Saul
2009,
    c₁ = 0,   c_{l+1} = (√(1 − c²) + c·(π − arccos c))/π   at c = c_l.
So the shares depend on the layer alone; each layer keeps the right number with the smallest |α|, or the largest α.
Numbers are rounded up to a multiple of 64, so that Strassen's product can halve them.
"""

import math
from dataclasses import dataclass

ROUNDED = 64


@dataclass(frozen=True)
class Thinning:
    width: int
    beyond: float
    """The |α| beyond which neurons are left out."""

    def is_idle(self, depth: int) -> bool:
        """Whether no neuron of so many layers is left out."""
        return self.hubs(depth) == self.width

    def hubs(self, layer: int) -> int:
        """Neurons of a layer (the first is 1) that bend enough."""
        return self._rounded(1 - 2 * self._tail(layer))

    def alive(self, layer: int) -> int:
        """Neurons of a layer that are not dead."""
        return self._rounded(1 - self._tail(layer))

    def _tail(self, layer: int) -> float:
        """The share of neurons with α < −beyond."""
        c = correlation(layer)
        return 0.5 * math.erfc(self.beyond / math.sqrt(2 * c / (1 - c))) if c > 0 else 0.0

    def _rounded(self, share: float) -> int:
        return min(self.width, ROUNDED * math.ceil(share * self.width / ROUNDED))


def correlation(layer: int) -> float:
    """c of a layer."""
    c = 0.0
    for _ in range(layer - 1):
        c = (math.sqrt(1 - c * c) + c * (math.pi - math.acos(c))) / math.pi
    return c
