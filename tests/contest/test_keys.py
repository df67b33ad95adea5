"""Keys: kept from others, and the same document gives the same signature."""

import json
from pathlib import Path

import pytest

import whest
from tests.support.contests import RULES
from whest.config.extras import Extra
from whest.contest import keys
from whest.contest.keys import Key, canonical, fingerprint, is_signed, open_key, read_secret
from whest.contest.published import Published
from whest.contest.rules import rules_of
from whest.contest.storage import keep, place_of
from whest.contest.story import check_story
from whest.errors import ConfigError


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = open_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert open_key(tmp_path / "key") == key
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        open_key(tmp_path / "key")


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    keep(tmp_path / "key", b"abc", mode=0o600)
    with pytest.raises(ConfigError, match="32 bytes"):
        open_key(tmp_path / "key")


def test_a_signature_holds_for_this_document_and_this_key_alone() -> None:
    key = Key(bytes(32))
    signed = json.loads(key.signed({"a": 1, "b": "ü"}))
    assert is_signed(signed, key.public)
    assert not is_signed({**signed, "a": 2}, key.public)
    assert not is_signed(signed, Key(bytes(range(32))).public)
    assert not is_signed({"a": 1}, key.public)
    assert not is_signed(signed, "no key")
    assert key.signed({"b": "ü", "a": 1}) == key.signed({"a": 1, "b": "ü"})
    assert len(fingerprint(key.public)) == 64


def spoilt(text: str) -> dict[str, str]:
    """Hex that `bytes.fromhex` takes, too, and other things that look like it."""
    letter = next(place for place, sign in enumerate(text) if sign.isalpha())
    capital = text[:letter] + text[letter].upper() + text[letter + 1 :]
    spaced = {f"space at {place}": text[:place] + " " + text[place:] for place in (0, 2, 64, len(text))}
    return spaced | {"capital": capital, "feed": text + "\n", "short": text[2:], "long": text + "00", "empty": ""}


def test_a_signature_is_written_in_one_way() -> None:
    key = Key(bytes(32))
    signed = json.loads(key.signed({"a": 1}))
    assert is_signed(signed, key.public)
    for what, text in spoilt(signed["signature"]).items():
        assert not is_signed({**signed, "signature": text}, key.public), what
    for what, text in spoilt(key.public).items():
        assert not is_signed(signed, text), what
    assert not is_signed({**signed, "signature": 3}, key.public)


def test_a_secret_is_written_in_one_way(tmp_path: Path) -> None:
    """In its file, and in the log's line that reveals it."""
    config = whest.compose("job=host", *RULES)
    rules = rules_of(config)
    name, secret = rules["contest"]["name"], "ab" * 32
    told = {"commitment": "c", "public_key": "k"}
    manifest = {"format": 1, "name": name, "rules": rules, "versions": {}, **told}
    stamp = {"at": "2026-11-18T00:00:00.000+00:00", "before": "", "sha256": ""}
    closed = {"kind": "closed", "n": 1, **stamp}
    first = {"kind": "opened", "n": 0, "contest": name, "manifest": "", **told, **stamp}
    for what, text in {"right": secret, **spoilt(secret)}.items():
        lines = [first, {**closed, "secret": text}]
        problems = list(check_story(Published(tmp_path, manifest, lines)))
        assert bool(problems) == (what != "right"), what
        keep(tmp_path / "secret", text.encode(), mode=0o600)
        if what in ("right", "feed"):  # as it is written
            assert read_secret(tmp_path / "secret").hex() == secret
        else:
            with pytest.raises(ConfigError, match="32 bytes in hex"):
                read_secret(tmp_path / "secret")


def test_what_is_signed_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"score": float("nan")})


def test_without_the_package_an_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(keys.EXTRAS, "contest", Extra("no_such_module_at_all", "…"))
    with pytest.raises(ConfigError, match=r"pip install 'whest\[contest\]'"):
        keys.need_signatures()


def test_the_private_folder_is_never_inside_the_published_one(tmp_path: Path) -> None:
    assert place_of(tmp_path / "spring", None).private == tmp_path / "spring.private"
    with pytest.raises(ConfigError, match=r"host\.private"):
        place_of(tmp_path / "spring", tmp_path / "spring" / "keys")
