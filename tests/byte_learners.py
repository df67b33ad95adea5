"""Learners that tests need: one that knows nothing, one that counts pairs, and those that cheat or break."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from whest.learner import N_BYTES, N_TOKENS, tokens_of


class Pairs(NamedTuple):
    params: Any


@dataclass
class Uniform:
    rows_per_step: int = 1

    def init(self, key: Any) -> Pairs:
        return Pairs(jnp.zeros(N_BYTES))

    def logits(self, params: Any, tokens: Any) -> Any:
        return jnp.broadcast_to(params, (*tokens.shape, N_BYTES))

    def update(self, state: Any, batch: Any) -> Any:
        return state


@dataclass
class Bigram:
    """Log-counts of pairs."""

    rows_per_step: int = 2
    start: float = 1.0

    def init(self, key: Any) -> Pairs:
        return Pairs(jnp.full((N_TOKENS, N_BYTES), self.start))

    def logits(self, params: Any, tokens: Any) -> Any:
        return jnp.log(params[tokens])

    def update(self, state: Any, batch: Any) -> Pairs:
        return Pairs(state.params.at[tokens_of(batch), batch].add(20.0))


@dataclass
class LooksAhead(Bigram):
    def logits(self, params: Any, tokens: Any) -> Any:
        return super().logits(params, jnp.roll(tokens, -1, axis=1))


@dataclass
class LooksAside(Bigram):
    """Each row by the one after it."""

    def logits(self, params: Any, tokens: Any) -> Any:
        return super().logits(params, jnp.roll(tokens, -1, axis=0))


@dataclass
class Smuggler(Bigram):
    """Knows from the start what the text is like."""

    def init(self, key: Any) -> Pairs:
        return Pairs(jnp.full((N_TOKENS, N_BYTES), 1.0).at[:, ord("a")].set(1e6))


@dataclass
class Luggage(Bigram):
    """Brings a table along as a constant."""

    def init(self, key: Any) -> Pairs:
        import numpy as np

        return Pairs(jnp.asarray(np.random.default_rng(0).random((N_TOKENS, N_BYTES), np.float32)))


@dataclass
class BreaksOnce(Bigram):
    """Not a number while a certain byte was the last to be learnt."""

    def logits(self, params: Any, tokens: Any) -> Any:
        return super().logits(params, tokens) + jnp.where(params[0, 0] > 0, 0.0, jnp.nan)

    def update(self, state: Any, batch: Any) -> Pairs:
        learnt = super().update(state, batch).params
        return Pairs(learnt.at[0, 0].set(jnp.where(batch[-1, -1] == ord("!"), -1.0, 1.0)))


@dataclass
class Overconfident(Bigram):
    """Certain, and wrong."""

    def logits(self, params: Any, tokens: Any) -> Any:
        return jnp.zeros((*tokens.shape, N_BYTES)).at[..., 0].set(jnp.where(params[0, 0] > 1, 1e4, 0.0))

    def update(self, state: Any, batch: Any) -> Pairs:
        return Pairs(state.params + 1.0)


@dataclass
class GrowsState(Bigram):
    def update(self, state: Any, batch: Any) -> Pairs:
        return Pairs(jnp.concatenate([state.params, state.params]))
