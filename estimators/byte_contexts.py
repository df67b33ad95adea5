"""Context tables with a learnt mixer: the bytes that followed each context before, for many contexts at once.

Each context (the last 1…6 bytes, the word so far, the word and the one before it) is hashed to a row of 256 counts. Its
prediction discounts the counts and backs off to the next shorter context,

    p_k(b) = (max(c_k(b) − d_k, 0) + (d_k·D_k + a_k)·p_{k−1}(b)) / (N_k + a_k),   N = Σ c, D = how many b have c > 0,

as in interpolated Kneser–Ney: a shorter context counts a byte only if the longer one had not seen it. Long contexts
(12…32 bytes) remember only the last byte that followed, and how many times in a row it was right. A small network gets
the confidence of each context and sets the weights of a product of experts:
logits = Σ_k w_k log p_k + Σ_m s_m [m remembers b].
Discounts, weights and network are trained by gradient descent on the loss; counts are counted. Bytes of the row itself
count too, by comparing its hashes with each other. So it does no harm that the tables are one row old.

A look-up costs the logarithm of its table, and a count costs one FLOP. Nearly the whole cost of an update is the
comparison within the row (2·row²·256 FLOPs per context) and the mixer's gradient.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8, UInt32
from pydantic import Field

from whest.learner import N_BYTES, LearnerContext, TrainState, affordable_steps, nats

HISTORY = 32
"""Number of bytes before a row that are kept."""
MOST = 250
"""The largest count."""
SUREST = 15
MULTIPLIER = 0x9E3779B1
Size = Annotated[int, Field(ge=1, le=65536)]
Bits = Annotated[int, Field(ge=4, le=24)]


@dataclass
class ByteContexts:
    orders: Annotated[list[Annotated[int, Field(ge=1, le=HISTORY)]], Field(min_length=1)]
    """Lengths of the counted contexts in bytes. Each one backs off to the one before it."""
    word_orders: Annotated[list[Annotated[int, Field(ge=1, le=4)]], Field()]
    """Lengths of the counted contexts in words, with the unfinished word."""
    matches: Annotated[list[Annotated[int, Field(ge=1, le=HISTORY)]], Field(min_length=1)]
    """Lengths of the remembered contexts in bytes."""
    table_bits: Bits
    match_bits: Bits
    hidden: Size
    learning_rate: Annotated[float, Field(gt=0)]
    final_rate: Annotated[float, Field(ge=0, le=1)]
    rows_per_step: Annotated[int, Field(ge=1, le=1)] = 1
    """Must be 1: a row continues where the row before it ended."""
    n_steps: int = field(default=1, init=False)

    def setup(self, context: LearnerContext) -> None:
        self.n_steps = max(1, affordable_steps(self, context))

    @property
    def n_tables(self) -> int:
        return len(self.orders) + len(self.word_orders)

    def init(self, key: PRNGKeyArray) -> TrainState:
        tables, matches = self.n_tables, len(self.matches)
        inputs = 3 * tables + 3 * matches
        mixer = {
            "look": jax.random.normal(key, (inputs, self.hidden)) * inputs**-0.5,
            "look_bias": jnp.zeros(self.hidden),
            "weigh": jnp.zeros((self.hidden, tables + matches)),
            "weights": jnp.full(tables, 1.0 / tables),
            "sure": jnp.zeros((matches, SUREST + 1)),
            "discount": jnp.zeros(tables),
            "backoff": jnp.zeros(tables),
        }
        params = {
            "mixer": mixer,
            "counts": jnp.zeros((tables, 2**self.table_bits, N_BYTES), jnp.uint8),
            "last": jnp.zeros((matches, 2**self.match_bits), jnp.uint8),
            "runs": jnp.zeros((matches, 2**self.match_bits), jnp.uint8),
            "bytes": jnp.zeros(N_BYTES),
            "history": jnp.zeros(HISTORY, jnp.uint8),
        }
        return TrainState(params, self._optimiser().init(mixer))

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        row = tokens[0, 1:].astype(jnp.uint8)
        return self._mix(params["mixer"], self._look_up(params, row))[None]

    def update(self, state: TrainState, batch: UInt8[Array, "row time"]) -> TrainState:
        params, row = state.params, batch[0]
        seen = self._look_up(params, row[:-1])
        gradients = jax.grad(lambda mixer: nats(self._mix(mixer, seen)[None], batch).mean())(params["mixer"])
        updates, optimiser = self._optimiser().update(gradients, state.optimiser, params["mixer"])
        mixer = optax.apply_updates(params["mixer"], updates)
        return TrainState({"mixer": mixer, **self._count(params, row, seen[0])}, optimiser)

    def _look_up(self, params: Any, known: UInt8[Array, " known"]) -> Any:
        """The counts and memories for each next byte, from the tables and from the row itself."""
        length = known.shape[0] + 1
        hashes = self._hashes(jnp.concatenate([params["history"], known]), length)
        counted, matched = hashes[: self.n_tables], hashes[self.n_tables :]
        earlier = jnp.arange(length)[:, None] > jnp.arange(length - 1)[None, :]
        same = (hashes[:, :, None] == hashes[:, None, :-1]) & earlier
        onehot = jax.nn.one_hot(known, N_BYTES)
        table = jnp.arange(self.n_tables)[:, None]
        stored = params["counts"][table, self._place(counted, self.table_bits)]
        counts = stored + jnp.einsum("kts,sb->ktb", same[: self.n_tables].astype(jnp.float32), onehot)
        single = params["bytes"] + jnp.pad(jnp.cumsum(onehot, axis=0), ((1, 0), (0, 0)))
        table, place = jnp.arange(len(self.matches))[:, None], self._place(matched, self.match_bits)
        latest = jnp.max(jnp.where(same[self.n_tables :], jnp.arange(1, length), 0), axis=-1)
        last = jnp.where(latest > 0, known[jnp.maximum(latest - 1, 0)], params["last"][table, place])
        runs = params["runs"][table, place].astype(jnp.int32)
        runs = jnp.where(latest > 0, jnp.maximum(runs, 1), runs)
        return stored, counts, single, last.astype(jnp.int32), runs

    def _mix(self, mixer: Any, seen: Any) -> Float[Array, "time 256"]:
        _, counts, single, last, runs = seen
        total, distinct = counts.sum(axis=-1, keepdims=True), (counts > 0).sum(axis=-1, keepdims=True)
        discount, backoff = jax.nn.sigmoid(mixer["discount"]), jnp.exp(mixer["backoff"])
        shorter = (single + 0.02) / (single + 0.02).sum(axis=-1, keepdims=True)
        predictions: list[Float[Array, "time 256"]] = []
        for k in range(self.n_tables):
            is_word = k >= len(self.orders)
            base = predictions[min(2, len(self.orders) - 1)] if is_word else shorter
            kept = jnp.maximum(counts[k] - discount[k], 0)
            shorter = (kept + (discount[k] * distinct[k] + backoff[k]) * base) / (total[k] + backoff[k])
            predictions.append(shorter)
        longest = predictions[len(self.orders) - 1]
        expected = jnp.take_along_axis(longest, last.T, axis=-1)
        looks = [jnp.log1p(total[..., 0]).T, jnp.log1p(distinct[..., 0]).T, jnp.log1p(counts.max(axis=-1)).T]
        looks += [(runs.T > 0).astype(jnp.float32), runs.T / 8.0, expected]
        hidden = jnp.tanh(jnp.concatenate(looks, axis=-1) @ mixer["look"] + mixer["look_bias"])
        weights = hidden @ mixer["weigh"]
        mixed = jnp.einsum(
            "tk,ktb->tb", weights[:, : self.n_tables] + mixer["weights"], jnp.log(jnp.stack(predictions))
        )
        matches = jnp.arange(len(self.matches))
        sure = jnp.where(runs.T > 0, weights[:, self.n_tables :] + mixer["sure"][matches, runs.T], 0.0)
        return mixed + jnp.einsum("tm,tmb->tb", sure, jax.nn.one_hot(last.T, N_BYTES))

    def _count(self, params: Any, row: UInt8[Array, " time"], stored: UInt8[Array, "context time 256"]) -> Any:
        """Tables and memory after adding the row. The added values depend on the read ones, so XLA writes in place."""
        hashes = self._hashes(jnp.concatenate([params["history"], row[:-1]]), row.shape[0])
        table, place = jnp.arange(self.n_tables)[:, None], self._place(hashes[: self.n_tables], self.table_bits)
        before = jnp.take_along_axis(stored, row[None, :, None].astype(jnp.int32), axis=-1)[..., 0]
        novel = jnp.concatenate([before[1 : len(self.orders)] == 0, jnp.ones_like(before[:1], bool)])
        wanted = jnp.concatenate([novel, jnp.ones_like(before[len(self.orders) :], bool)])
        more = (wanted & (before < MOST)).astype(jnp.uint8)
        matches, spot = jnp.arange(len(self.matches))[:, None], self._place(hashes[self.n_tables :], self.match_bits)
        right = (params["last"][matches, spot] == row) & (params["runs"][matches, spot] > 0)
        runs = jnp.where(right, jnp.minimum(params["runs"][matches, spot] + 1, SUREST), 1).astype(jnp.uint8)
        return {
            "counts": params["counts"].at[table, place, row].add(more),
            "last": params["last"].at[matches, spot].set(jnp.broadcast_to(row, runs.shape)),
            "runs": params["runs"].at[matches, spot].set(runs),
            "bytes": params["bytes"].at[row].add(1.0),
            "history": jnp.concatenate([params["history"], row])[-HISTORY:],
        }

    def _hashes(self, before: UInt8[Array, " bytes"], length: int) -> UInt32[Array, "context time"]:
        """Hash of every context at every place: a polynomial in its bytes, then mixed."""
        back = jnp.stack([before[HISTORY - 1 - j : HISTORY - 1 - j + length] for j in range(HISTORY)], axis=-1)
        powers = jnp.cumprod(jnp.full(HISTORY, MULTIPLIER, jnp.uint32))
        terms = (back.astype(jnp.uint32) + 1) * powers
        sums = jnp.cumsum(terms, axis=-1)
        lower = back | 32
        gaps = jnp.cumsum(~(((lower >= 97) & (lower <= 122)) | (back == 95)), axis=-1)
        words = [jnp.where(gaps < n, terms, 0).sum(axis=-1, dtype=jnp.uint32) + n for n in self.word_orders]
        polynomials = [*(sums[:, n - 1] for n in self.orders), *words, *(sums[:, n - 1] for n in self.matches)]
        stirred = jnp.stack(polynomials) * jnp.uint32(0x85EBCA6B)
        return (stirred ^ (stirred >> 15)) * jnp.uint32(0xC2B2AE35)

    def _place(self, hashes: UInt32[Array, "context time"], bits: int) -> Int32[Array, "context time"]:
        return (hashes >> (32 - bits)).astype(jnp.int32)

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.n_steps, self.final_rate))
