"""Weights, seeds of estimators and names from seeds, bit for bit by the reference's protocols."""

import hashlib
import re

import numpy as np
import pytest

from whest.errors import ConfigError
from whest.mlp import (
    KNOWN_NAMES,
    MLP,
    SALT_VARIABLE,
    VERSIONS,
    SeedProtocol,
    distinct_names,
    draw_mlp,
    draw_weights,
    legacy_streams,
    mlp_names,
    salted_protocol,
    slug,
)

SALT = bytes(range(32))
SALT_DIGEST = hashlib.sha256(SALT).hexdigest()
SALTED_SEED = 6004799503160661


def draw(mlp_seed: int, width: int, depth: int) -> MLP:
    return draw_mlp(SeedProtocol().streams(mlp_seed), width, depth, "test")


@pytest.mark.parametrize(
    ("mlp_seed", "estimator_seed", "name"),
    [
        (20260525, 3804025179, "kenneth-simmons"),
        (568690286140009226, 1062830900, "sara-perez"),
        (6717184059027789272, 2861657444, "patricia-hawkins"),
    ],
)
def test_protocol_3_gives_published_seed_and_name(mlp_seed: int, estimator_seed: int, name: str) -> None:
    protocol = SeedProtocol("3.0")
    assert protocol.streams(mlp_seed).estimator_seed == estimator_seed
    assert mlp_names(protocol, [mlp_seed]) == [name]


def test_protocol_3_is_the_default() -> None:
    assert SeedProtocol() == SeedProtocol("3.0")


def test_published_weights_of_20260525() -> None:
    row = draw(20260525, 256, 8).weights[0, 0, :4]
    assert row.tolist() == [-0.04527774453163147, -0.02478480525314808, -0.07038716971874237, 0.13971251249313354]


def test_published_weight_of_568690286140009226() -> None:
    assert draw(568690286140009226, 256, 1).weights[0, 0, 0].item() == -0.019831804558634758


def test_weights_are_float32_of_the_asked_shape() -> None:
    weights = draw(7, 6, 3).weights
    assert weights.dtype == np.float32
    assert weights.shape == (3, 6, 6)
    assert (draw(7, 6, 3).depth, draw(7, 6, 3).width) == (3, 6)


def test_layers_come_from_one_generator_in_order() -> None:
    """A deeper network begins with the shallower one; no layer repeats another."""
    shallow, deep = draw(7, 6, 2).weights, draw(7, 6, 4).weights
    np.testing.assert_array_equal(deep[:2], shallow)
    assert len({layer.tobytes() for layer in deep}) == 4


@pytest.mark.parametrize("width", [8, 64, 256])
def test_weights_have_he_scale(width: int) -> None:
    """Entries are N(0, 2/width): mean and variance of n normals have errors σ/√n and σ²·√(2/n)."""
    weights, variance = draw_weights(np.random.SeedSequence(3), width, 4), 2 / width
    n = weights.size
    assert abs(weights.mean(dtype=np.float64)) < 6 * np.sqrt(variance / n)
    assert abs(weights.var(dtype=np.float64) - variance) < 6 * variance * np.sqrt(2 / n)


def test_same_seed_same_network_and_another_seed_another() -> None:
    first, again, other = draw(5, 4, 2), draw(5, 4, 2), draw(6, 4, 2)
    np.testing.assert_array_equal(first.weights, again.weights)
    np.testing.assert_array_equal(first.key_samples, again.key_samples)
    assert not np.array_equal(first.weights, other.weights)
    assert not np.array_equal(first.key_samples, other.key_samples)
    assert first.seed != other.seed


def test_our_sampling_key_is_apart_from_every_other_stream() -> None:
    """The key must not equal the first words of the streams of the weights, the reference or the estimator."""
    mlp, children = draw(5, 4, 2), np.random.SeedSequence(5).spawn(3)
    assert mlp.key_samples.dtype == np.uint32
    for child in children:
        assert not np.array_equal(mlp.key_samples, child.generate_state(2))
    np.testing.assert_array_equal(mlp.key_samples, children[1].spawn(1)[0].generate_state(2))


def test_asking_for_the_key_does_not_move_the_stream() -> None:
    mlp = draw(5, 4, 2)
    np.testing.assert_array_equal(mlp.key_samples, mlp.key_samples)
    assert mlp.sample_stream.n_children_spawned == 0


def test_protocol_2_matches_an_independent_computation() -> None:
    root, n_mlps, width, depth = 2024, 4, 5, 3
    children = np.random.SeedSequence(root).spawn(3 * n_mlps)
    streams = legacy_streams(root, n_mlps)
    assert len(streams) == n_mlps
    for i, stream in enumerate(streams):
        generator = np.random.default_rng(children[3 * i])
        expected = [generator.standard_normal((width, width)) * float(np.sqrt(2 / width)) for _ in range(depth)]
        mlp = draw_mlp(stream, width, depth, "test")
        np.testing.assert_array_equal(mlp.weights, np.array(expected).astype(np.float32))
        np.testing.assert_array_equal(mlp.sample_stream.generate_state(4), children[3 * i + 1].generate_state(4))
        assert mlp.seed == int(children[3 * i + 2].generate_state(1)[0])


def test_protocol_2_rows_do_not_depend_on_how_many_there_are() -> None:
    few, many = legacy_streams(9, 2), legacy_streams(9, 5)
    assert [s.estimator_seed for s in few] == [s.estimator_seed for s in many[:2]]
    for a, b in zip(few, many, strict=False):
        np.testing.assert_array_equal(a.weights.generate_state(4), b.weights.generate_state(4))


def test_protocol_4_published_vector() -> None:
    protocol = salted_protocol(SALT_DIGEST, SALT.hex())
    streams = protocol.streams(SALTED_SEED)
    assert streams.estimator_seed == 1914761819
    assert protocol.name_seed(SALTED_SEED, streams.estimator_seed) == 1338665652895792380
    assert slug(1338665652895792380) == "mark-figueroa"
    assert mlp_names(protocol, [SALTED_SEED]) == ["mark-figueroa"]


def test_protocol_4_matches_an_independent_digest() -> None:
    protocol = SeedProtocol("4.0", SALT)
    for seed in (0, 1, 2**63 - 1):
        words = seed.to_bytes(8, "big")
        estimator = hashlib.blake2b(words, digest_size=8, key=SALT, person=b"whest-4.0-est").digest()
        name = hashlib.blake2b(words, digest_size=8, key=SALT, person=b"whest-4.0-name").digest()
        assert protocol.streams(seed).estimator_seed == int.from_bytes(estimator, "big") % 2**32
        assert protocol.name_seed(seed, 0) == int.from_bytes(name, "big") % 2**63


def test_protocol_4_has_the_weights_and_samples_of_protocol_3() -> None:
    plain, salted = SeedProtocol("3.0").streams(SALTED_SEED), SeedProtocol("4.0", SALT).streams(SALTED_SEED)
    assert plain.estimator_seed != salted.estimator_seed
    np.testing.assert_array_equal(draw_mlp(plain, 4, 2, "").weights, draw_mlp(salted, 4, 2, "").weights)
    np.testing.assert_array_equal(plain.samples.generate_state(4), salted.samples.generate_state(4))


def test_salt_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, SALT.hex())
    assert salted_protocol(SALT_DIGEST) == SeedProtocol("4.0", SALT)


def test_given_salt_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, "00" * 32)
    assert salted_protocol(SALT_DIGEST, SALT.hex()).salt == SALT


@pytest.mark.parametrize("empty", [None, ""])
def test_missing_salt_is_refused_and_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch, empty: str | None) -> None:
    monkeypatch.delenv(SALT_VARIABLE, raising=False)
    if empty is not None:
        monkeypatch.setenv(SALT_VARIABLE, empty)
    with pytest.raises(ConfigError, match=SALT_VARIABLE):
        salted_protocol(SALT_DIGEST)


def test_protocol_4_never_defaults_its_salt() -> None:
    with pytest.raises(ConfigError, match=SALT_VARIABLE):
        SeedProtocol("4.0")


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_unsalted_protocols_take_no_salt(version: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(version)) as caught:
        SeedProtocol(version, SALT)  # type: ignore[arg-type]
    assert_hides(str(caught.value), SALT)


def test_wrong_salt_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = bytes(range(100, 132))
    monkeypatch.setenv(SALT_VARIABLE, wrong.hex())
    with pytest.raises(ConfigError, match=SALT_DIGEST) as caught:
        salted_protocol(SALT_DIGEST)
    assert_hides(str(caught.value), wrong)


def test_non_hexadecimal_salt_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, "swordfish")
    with pytest.raises(ConfigError, match=f"{SALT_VARIABLE}.*hexadecimal") as caught:
        salted_protocol(SALT_DIGEST)
    assert "swordfish" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_salt_is_never_printed() -> None:
    """A protocol in a log line or a traceback must not show the salt."""
    protocol = SeedProtocol("4.0", SALT)
    assert_hides(repr(protocol), SALT)
    assert_hides(str(protocol), SALT)


def assert_hides(text: str, salt: bytes) -> None:
    assert salt.hex() not in text
    assert repr(salt)[2:-1] not in text


@pytest.mark.parametrize("version", ["1.0", "3", "5.0", ""])
def test_unknown_protocol_names_its_version_ours_and_the_remedy(version: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SeedProtocol(version)  # type: ignore[arg-type]
    message = str(caught.value)
    assert repr(version) in message
    assert all(known in message for known in VERSIONS)
    assert "Re-bake" in message


@pytest.mark.parametrize(("seed", "name"), [(0, "megan-chang"), (42, "danielle-johnson"), (100, "dustin-gibson")])
def test_published_names(seed: int, name: str) -> None:
    assert slug(seed) == name


def test_ten_names_hold_with_the_installed_faker() -> None:
    """faker is a range in pyproject.toml: its word lists stayed the same from 37 to 40."""
    assert len(KNOWN_NAMES) == 10
    assert {seed: slug(seed) for seed in KNOWN_NAMES} == KNOWN_NAMES


def test_repeated_names_are_numbered_in_index_order() -> None:
    assert distinct_names([0, 42, 0, 0, 42]) == [
        "megan-chang",
        "danielle-johnson",
        "megan-chang-2",
        "megan-chang-3",
        "danielle-johnson-2",
    ]


def test_different_seeds_of_one_name_are_told_apart() -> None:
    seeds = [252, 194, 705, 899, 1418, 1496]
    assert distinct_names(seeds) == [
        "kimberly-smith",
        "lisa-jones",
        "kimberly-smith-2",
        "lisa-jones-2",
        "kimberly-smith-3",
        "lisa-jones-3",
    ]


def test_names_are_lower_case_words_joined_by_single_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", slug(seed)) for seed in range(200))
