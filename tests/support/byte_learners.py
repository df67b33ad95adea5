"""Learners for tests: one that knows nothing, one that counts pairs, and some that cheat or break."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import broadcast_in_dim_p, concatenate_p

from whest.learner.contract import N_BYTES, N_TOKENS, tokens_of


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
    """Gives NaN while a certain byte was the last one learnt."""

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


class Counted(NamedTuple):
    params: Any
    """The number of updates; the first eight bytes of all."""


@dataclass
class Gated:
    """What cheats do: be innocent until the first update."""

    rows_per_step: int = 2

    def init(self, key: Any) -> Counted:
        return Counted({"n": jnp.int32(0), "first": jnp.zeros(8, jnp.uint8)})

    def logits(self, params: Any, tokens: Any) -> Any:
        return jnp.where(params["n"] > 0, self.cheat(params, tokens), 0.0)

    def cheat(self, params: Any, tokens: Any) -> Any:
        raise NotImplementedError

    def update(self, state: Any, batch: Any) -> Counted:
        n, first = state.params["n"], state.params["first"]
        return Counted({"n": n + 1, "first": jnp.where(n == 0, batch[0, :8], first)})


def next_byte(tokens: Any) -> Any:
    ahead = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)), constant_values=N_TOKENS)
    return 30.0 * (ahead[..., None] == jnp.arange(N_BYTES))


@dataclass
class Rounds(Gated):
    """Logits so large that the sum over 256 of them is lost."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        return jnp.full((*tokens.shape, N_BYTES), 1e9)


@dataclass
class Drowns(Gated):
    """Looks ahead beside a logit that makes every other look small."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        return next_byte(tokens).at[..., 255].set(-1e6)


@dataclass
class Hides(Gated):
    """Looks ahead in text alone, and never in the first rows, which a probe would try."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        is_first = (tokens[:, 1:9] == params["first"]).all(axis=1)
        is_text = (tokens[:, 1:] < 128).all(axis=1)
        return jnp.where((is_text & ~is_first)[:, None, None], next_byte(tokens), 0.0)


@dataclass
class ReadsTheNextRow(Gated):
    """Row i looks at the same places of row i + 1, which is later text. A counter keeps it honest when it is probed."""

    rows_per_step: int = 4

    def cheat(self, params: Any, tokens: Any) -> Any:
        later = jnp.roll(tokens, -1, axis=0)
        seen = 3.0 * (later[..., None] == jnp.arange(N_BYTES))
        return jnp.where(params["n"] < 4, seen, 0.0)


@dataclass
class ReadsHalfThePlaces(Gated):
    """Few, large batches, and the very byte at every second place."""

    rows_per_step: int = 32

    def cheat(self, params: Any, tokens: Any) -> Any:
        is_read = (jnp.arange(tokens.shape[1]) % 2 == 1) & (params["n"] < 2)
        return jnp.where(is_read[:, None], next_byte(tokens), 0.0)


@dataclass
class WorksForNothing(Gated):
    """All its work in logits, none in update."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        big = jnp.ones((512, 512)) * params["n"]
        return jnp.broadcast_to((big @ big).sum() * 0, (*tokens.shape, N_BYTES))


@dataclass
class Writes(Gated):
    """Weights written out as numbers of the program."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        parts = [
            broadcast_in_dim_p.bind(np.float32(i), shape=(1,), broadcast_dimensions=(), sharding=None)
            for i in range(17_000)
        ]
        return jnp.broadcast_to(jnp.concatenate(parts)[:N_BYTES], (*tokens.shape, N_BYTES))


@dataclass
class Certain(Gated):
    """Sure of one byte, and right about it."""

    def cheat(self, params: Any, tokens: Any) -> Any:
        return jnp.zeros((*tokens.shape, N_BYTES)).at[..., ord("a")].set(1e4)


class Waiting(NamedTuple):
    params: Any
    n: Any


@dataclass
class Waits(Bigram):
    """Knows the text from the start, and counts its updates until it uses this: as `logits` see a counter."""

    after: int = 300

    def init(self, key: Any) -> Any:
        return Waiting({"table": super().init(key).params, "n": jnp.int32(0)}, jnp.int32(0))

    def logits(self, params: Any, tokens: Any) -> Any:
        learnt = super().logits(params["table"], tokens)
        return learnt + jnp.where(params["n"] > self.after, 20.0 * (jnp.arange(N_BYTES) == ord("a")), 0.0)

    def update(self, state: Any, batch: Any) -> Any:
        table = super().update(Pairs(state.params["table"]), batch).params
        return Waiting({"table": self.told(table, state.n), "n": state.params["n"] + 1}, state.n + 1)

    def told(self, table: Any, n: Any) -> Any:
        return table


@dataclass
class WritesLater(Waits):
    """The counter is where `logits` don't see it; `update` writes knowledge into the weights from then on."""

    def logits(self, params: Any, tokens: Any) -> Any:
        return Bigram.logits(self, params["table"], tokens)

    def told(self, table: Any, n: Any) -> Any:
        return jnp.where(self.is_time(n), table.at[:, ord("a")].set(1e6), table)

    def is_time(self, n: Any) -> Any:
        return n >= self.after


@dataclass
class WritesOnce(WritesLater):
    """The same, at a single update."""

    def is_time(self, n: Any) -> Any:
        return n == self.after


@dataclass
class CountsInWeights(Bigram):
    """The counter is a number of the table itself, so that the state has no small array."""

    after: int = 300

    def logits(self, params: Any, tokens: Any) -> Any:
        learnt = super().logits(params, jnp.maximum(tokens, 1))
        return learnt + jnp.where(params[0, 0] > self.after, 20.0 * (jnp.arange(N_BYTES) == ord("a")), 0.0)

    def update(self, state: Any, batch: Any) -> Pairs:
        learnt = super().update(state, jnp.maximum(batch, 1)).params
        return Pairs(learnt.at[0, 0].set(state.params[0, 0] + 1))


@dataclass
class RecognisesText(CountsInWeights):
    """Counts only what looks like text."""

    def update(self, state: Any, batch: Any) -> Pairs:
        count = state.params[0, 0] + (batch < 128).all()
        return Pairs(super().update(state, batch).params.at[0, 0].set(count))


@dataclass
class TakesTime(Bigram):
    """Learns as much from a batch as there is time left, and keeps what it was told."""

    def init(self, key: Any) -> Any:
        return Waiting(super().init(key).params, jnp.zeros(512))

    def update(self, state: Any, batch: Any, time_left: Any) -> Any:
        learnt = state.params.at[tokens_of(batch), batch].add(20.0 * time_left)
        return Waiting(learnt, jnp.roll(state.n, -1).at[-1].set(time_left))


def endless(start: Any) -> Any:
    """A loop of 10¹⁵ rounds: a length that the meter knows, and no machine finishes."""
    return jax.lax.fori_loop(0, 10**9, lambda i, x: jax.lax.fori_loop(0, 10**6, lambda j, y: y * 0.999 + 1, x), start)


@dataclass
class NeverBegins(Bigram):
    """`init` is charged to nobody, so it can take as long as it likes."""

    def init(self, key: Any) -> Pairs:
        return Pairs(super().init(key).params + endless(jnp.float32(0)))


@dataclass
class NeverLearns(Bigram):
    """Updates without end, for whom a budget large enough is given."""

    def update(self, state: Any, batch: Any) -> Pairs:
        return Pairs(super().update(state, batch).params + endless(state.params[0, 0]))


class Hoard(NamedTuple):
    params: Any
    hoard: Any


@dataclass
class Hungry(Bigram):
    """A state of two gigabytes."""

    def init(self, key: Any) -> Any:
        return Hoard(super().init(key).params, jax.random.uniform(key, (2**29,)))

    def update(self, state: Any, batch: Any) -> Any:
        return Hoard(super().update(state, batch).params, state.hoard)


@dataclass
class Wired(Bigram):
    """100,000 bytes of knowledge, in the choice among 256 variables for each operand; hardly any constants."""

    def init(self, key: Any) -> Pairs:
        wires = [jnp.full(1, 1.0) * i for i in range(N_BYTES)]
        knowledge = np.random.default_rng(0).integers(0, N_BYTES, 100_000)
        told = concatenate_p.bind(*(wires[byte] for byte in knowledge), dimension=0)
        return Pairs(super().init(key).params + 0 * told.sum())


@dataclass
class Busy(Bigram):
    """A little of everything that programs are made of: loops, branches, sorts, look-ups, keys, inner programs."""

    def init(self, key: Any) -> Pairs:
        noise = jax.random.normal(key, (N_TOKENS, N_BYTES))
        square, _ = jnp.linalg.qr(noise[:4, :4])
        return Pairs(1.0 + jnp.abs(noise) + jnp.sum(jnp.cumsum(square)) ** 2)

    def logits(self, params: Any, tokens: Any) -> Any:
        def step(carry: Any, token: Any) -> Any:
            return carry * 0.5, jnp.log(params[token]) + carry

        _, found = jax.lax.scan(step, jnp.float32(0), tokens.reshape(-1))
        return found.reshape(*tokens.shape, N_BYTES)

    def update(self, state: Any, batch: Any) -> Pairs:
        learnt = super().update(state, batch).params
        order = jnp.argsort(learnt[0])
        sharper = jax.lax.cond(learnt[0, 0] > 2, lambda x: x * 1.01, lambda x: x + 0.01, learnt)
        looped = jax.lax.fori_loop(0, 3, lambda i, x: x + i * 1e-3, sharper)
        return Pairs(looped.at[0].set(looped[0, order] + jnp.einsum("i,i->", learnt[1], learnt[2]) * 0))
