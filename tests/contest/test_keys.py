"""Keys: kept from others, and the same document gives the same signature."""

import json
from pathlib import Path

import pytest

from whest.config.extras import Extra
from whest.contest import keys
from whest.contest.keys import Key, canonical, fingerprint, is_signed, open_key
from whest.contest.storage import keep, place_of
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
