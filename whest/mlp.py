"""MLPs from seeds: the weights, the estimator's seed and the name of each network.

A bias-free ReLU MLP maps ``x ~ N(0, I)`` through ``h_l = relu(h_{l-1} @ W_l)``, with ``W_l`` of shape (width, width)
and entries N(0, 2/width). A *seed protocol* derives the weights, a sampling stream and ``mlp.seed`` from one integer.
The protocols are reproduced bit for bit in NumPy, so a list of seeds is enough to store a dataset.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from whest.errors import ConfigError

Version = Literal["2.0", "3.0", "4.0"]
SEED_PROTOCOL_NAMES: dict[Version, str] = {
    "2.0": "whestbench_seedsequence_hierarchy",
    "3.0": "whestbench_explicit_per_mlp_seeds",
    "4.0": "whestbench_kdf_per_mlp_seeds",
}
"""The name of each protocol in dataset files and reports."""

VERSIONS: tuple[Version, ...] = tuple(SEED_PROTOCOL_NAMES)
SALT_VARIABLE = "WHEST_SEED_SALT"


@dataclass(frozen=True)
class MLP:
    """One network and everything derived from its seed."""

    weights: Float[np.ndarray, "depth width width"]
    seed: int
    """The estimator's own seed (32 bits), which it reads as ``mlp.seed``."""
    name: str
    sample_stream: np.random.SeedSequence
    """The stream from which `truth=reference` draws its samples."""

    @property
    def depth(self) -> int:
        return self.weights.shape[0]

    @property
    def width(self) -> int:
        return self.weights.shape[1]

    @property
    def key_samples(self) -> np.ndarray:
        """The Threefry key of the other samplers: a child of the sampling stream, apart from the reference's draws."""
        stream = self.sample_stream
        return np.random.SeedSequence(stream.entropy, spawn_key=(*stream.spawn_key, 0)).generate_state(2)


@dataclass(frozen=True)
class Streams:
    """The three independent streams of one MLP."""

    weights: np.random.SeedSequence
    samples: np.random.SeedSequence
    estimator_seed: int


@dataclass(frozen=True)
class SeedProtocol:
    """How networks are derived from seeds. Protocol 4.0 hides the estimator's seed behind a secret salt."""

    version: Version = "3.0"
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise ConfigError(
                f"seed_protocol version {self.version!r} is not supported: this whest reads {', '.join(VERSIONS)}. "
                "Re-bake the dataset with one of them."
            )
        if (self.version == "4.0") != (self.salt is not None):
            raise ConfigError(
                f"seed protocol 4.0 needs its salt: set {SALT_VARIABLE} to the salt's hex digits"
                if self.salt is None
                else f"seed protocol {self.version} takes no salt"
            )
        if self.salt is not None and not 1 <= len(self.salt) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ConfigError(f"a salt has 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, this one has {len(self.salt)}")

    @property
    def salt_digest(self) -> str | None:
        """The sha256 of the salt, which may be published."""
        return hashlib.sha256(self.salt).hexdigest() if self.salt is not None else None

    def streams(self, mlp_seed: int) -> Streams:
        """The streams of one row's seed (protocols 3.0 and 4.0; 2.0 has one root for all, see `legacy_streams`)."""
        if self.version == "2.0":
            raise ConfigError("seed protocol 2.0 derives every MLP from one root seed: use dataset=fresh")
        weights, samples, estimator = np.random.SeedSequence(mlp_seed).spawn(3)
        if self.version == "4.0":
            return Streams(weights, samples, self._digest(mlp_seed, b"whest-4.0-est") % 2**32)
        return Streams(weights, samples, int(estimator.generate_state(1)[0]))

    def name_seed(self, mlp_seed: int, estimator_seed: int) -> int:
        if self.version == "4.0":
            return self._digest(mlp_seed, b"whest-4.0-name") % 2**63
        return estimator_seed

    def _digest(self, mlp_seed: int, person: bytes) -> int:
        assert self.salt is not None
        digest = hashlib.blake2b(mlp_seed.to_bytes(8, "big"), digest_size=8, key=self.salt, person=person)
        return int.from_bytes(digest.digest(), "big")


def salted_protocol(salt_digest: str, salt_hex: str | None = None) -> SeedProtocol:
    """Protocol 4.0 with a salt from the metadata or the environment, checked against its published digest."""
    salt_hex = salt_hex if salt_hex is not None else os.environ.get(SALT_VARIABLE)
    if not salt_hex:
        raise ConfigError(f"this dataset uses seed protocol 4.0: set {SALT_VARIABLE} to the salt's hex digits")
    try:
        salt = bytes.fromhex(salt_hex)
    except ValueError:
        raise ConfigError(f"{SALT_VARIABLE} is not hexadecimal") from None
    if hashlib.sha256(salt).hexdigest() != salt_digest:
        raise ConfigError(f"the salt in {SALT_VARIABLE} does not match the dataset's salt_digest {salt_digest}")
    return SeedProtocol("4.0", salt)


def legacy_streams(root_seed: int, n_mlps: int) -> list[Streams]:
    """Protocol 2.0: one root seed, and three streams per MLP in order."""
    return [legacy_stream(root_seed, index) for index in range(n_mlps)]


def legacy_stream(root_seed: int, index: int) -> Streams:
    """One MLP's three streams: the root's children 3i, 3i+1 and 3i+2. They do not depend on the number of MLPs."""
    weights, samples, est = (np.random.SeedSequence(root_seed, spawn_key=(3 * index + k,)) for k in range(3))
    return Streams(weights, samples, int(est.generate_state(1)[0]))


def draw_weights(stream: np.random.SeedSequence, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
    """He-initialised float32 weights, drawn layer by layer from one generator."""
    generator, scale = np.random.default_rng(stream), float(np.sqrt(2 / width))
    layers = [(generator.standard_normal((width, width)) * scale).astype(np.float32) for _ in range(depth)]
    return np.stack(layers)


def draw_mlp(streams: Streams, width: int, depth: int, name: str) -> MLP:
    return MLP(draw_weights(streams.weights, width, depth), streams.estimator_seed, name, streams.samples)


KNOWN_NAMES = {
    1: "dennis-boone",
    2: "stephanie-gould",
    3: "john-stephens",
    7: "mario-hernandez",
    1234: "tammy-alexander",
    65537: "lori-hart",
    2**31 - 1: "louis-roth",
    2**40 + 1: "gregory-gallegos",
    2**62 + 5: "sean-adams",
    999999937: "seth-webb",
}
"""What `slug` must give, whichever faker is installed."""


def slug(seed: int) -> str:
    """A person's name for a seed. It depends on faker's word lists, so faker is a range, and `job=doctor` checks it."""
    from faker import Faker

    fake = Faker()
    fake.seed_instance(seed)
    spoken = f"{fake.first_name()} {fake.last_name()}".lower()
    return re.sub(r"[\s-]+", "-", re.sub(r"[^a-z\s-]", "", spoken)).strip("-")


def distinct_names(seeds: Iterable[int]) -> list[str]:
    """One name per seed; a repeated name gets -2, -3 … in index order."""
    seen: Counter[str] = Counter()
    names = []
    for base in map(slug, seeds):
        seen[base] += 1
        names.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return names


def mlp_names(protocol: SeedProtocol, mlp_seeds: Sequence[int]) -> list[str]:
    seeds = (protocol.name_seed(seed, protocol.streams(seed).estimator_seed) for seed in mlp_seeds)
    return distinct_names(seeds)
