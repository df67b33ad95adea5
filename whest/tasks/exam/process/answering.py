"""Answering: greedy generation from a prefix, byte by byte, with a bundle's program.

The program gets only BOS and the bytes before the next one. A longer window is padded at its end, which a causal model
does not use.
"""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from whest.cases.exam import Answer, Question
from whest.isolation.portable import read_program
from whest.learner.contract import BOS, N_BYTES
from whest.tasks.exam.process.bundle import Bundle, BundleError
from whest.tasks.exam.questions import PREFIX_BYTES


class Answerer:
    """Answers questions with an opened bundle."""

    def __init__(self, bundle: Bundle) -> None:
        shapes = bundle.program["program"]["shapes"]
        *wanted, (tokens_shape, _, _) = shapes
        if len(wanted) != len(bundle.params) or len(tokens_shape) != 2 or tokens_shape[0] != 1:
            raise BundleError("the bundle's program doesn't fit its parameters")
        self.window = min(int(tokens_shape[1]), PREFIX_BYTES + 1)
        self._length = int(tokens_shape[1])
        self._params = [
            jnp.asarray(array.view(np.dtype(name)) if array.dtype.kind == "V" else array)
            for array, (_, name, _) in zip(bundle.params, wanted, strict=True)
        ]
        self._run = jax.jit(read_program(bundle.program, bundle.constants))

    def logits(self, shown: bytes) -> Float[np.ndarray, " byte"]:
        """The logits of the next byte after `shown`. Only the last bytes fit into the window."""
        seen = shown[-(self.window - 1) :]
        tokens = np.zeros((1, self._length), np.int32)
        tokens[0, 0] = BOS
        tokens[0, 1 : len(seen) + 1] = np.frombuffer(seen, np.uint8)
        (found,) = self._run(*self._params, tokens)
        row = np.asarray(found)[0, len(seen)]
        if row.shape != (N_BYTES,):
            raise BundleError(f"the bundle's program gives logits of shape {row.shape} per byte, not ({N_BYTES},)")
        return row

    def answer(self, question: Question) -> Answer:
        """As many bytes as the right answer has, and the nats of the right answer."""
        started = time.perf_counter()
        given, steps = b"", []
        for _ in question.answer:
            row = self.logits(question.prefix + given)
            if not np.all(np.isfinite(row)):
                return Answer(None, None, time.perf_counter() - started)
            steps.append(row)
            given += bytes([int(np.argmax(row))])
        return Answer(given, self._nats(question, given, steps), time.perf_counter() - started)

    def _nats(self, question: Question, given: bytes, steps: list[Float[np.ndarray, " byte"]]) -> float | None:
        total = 0.0
        for i, right in enumerate(question.answer):
            same = given[:i] == question.answer[:i]
            row = (steps[i] if same else self.logits(question.prefix + question.answer[:i])).astype(np.float64)
            total += float(np.logaddexp.reduce(row) - row[right])
        return total if math.isfinite(total) else None
