"""Documents that are signed: canonical JSON, and Ed25519 by the package `cryptography`.

A signature covers the canonical bytes of a document without its field `signature`.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whest.config.extras import EXTRAS, can_import, installing
from whest.contest.storage import keep
from whest.errors import ConfigError

Document = dict[str, Any]
SIGNATURE = "signature"


def canonical(document: Mapping[str, Any]) -> bytes:
    """The one way to write a document: keys in order, no spaces, ASCII, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def need_signatures() -> None:
    """Ask for the package before any work starts."""
    if not can_import(EXTRAS["contest"]):
        raise ConfigError(
            f"a contest signs with Ed25519, and the package cryptography is missing: {installing('contest')}"
        )


@dataclass(frozen=True)
class Key:
    """The organiser's private key: 32 bytes."""

    secret: bytes

    @cached_property
    def _private(self) -> Any:
        need_signatures()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> str:
        """The public key in hex."""
        return str(self._private.public_key().public_bytes_raw().hex())

    def signed(self, document: Mapping[str, Any]) -> bytes:
        """The document with its signature, as the bytes of its file. The same document gives the same bytes."""
        signature = self._private.sign(canonical(document)).hex()
        return canonical({**document, SIGNATURE: signature}) + b"\n"


def open_key(path: Path) -> Key:
    """The key of this file; a new one if there is none. Only its owner may read it."""
    if not path.exists():
        keep(path, os.urandom(32).hex().encode() + b"\n", mode=0o600)
    return Key(read_secret(path))


def read_secret(path: Path) -> bytes:
    """32 secret bytes in hex, from a file that nobody else can read."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} can be read by others: chmod 600 {path}, and if they did read it, start anew")
    try:
        text = path.read_text().removesuffix("\n")
    except ValueError:
        text = ""
    if not is_hex(text, 32):
        raise ConfigError(f"{path} does not hold 32 bytes in hex: bring back the file that the contest was opened with")
    return bytes.fromhex(text)


def is_hex(text: Any, n_bytes: int) -> bool:
    """Whether it is the one way to write so many bytes: `bytes.fromhex` takes capitals and spaces, too."""
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{2 * n_bytes}}}", text) is not None


def is_signed(document: Mapping[str, Any], public: str) -> bool:
    """Whether the document carries a signature of this key."""
    need_signatures()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    body = {name: value for name, value in document.items() if name != SIGNATURE}
    signature = document.get(SIGNATURE)
    if not isinstance(signature, str) or not is_hex(signature, 64) or not is_hex(public, 32):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), canonical(body))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def fingerprint(public: str) -> str:
    """What people compare: the sha256 of the public key."""
    return sha256(bytes.fromhex(public))
