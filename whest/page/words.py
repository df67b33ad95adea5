"""Text from strangers, made harmless for a page: no control characters, and labels that are not too long."""

import unicodedata
from functools import lru_cache

LONGEST_LABEL = 60
BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
"""These characters change the direction of text, so that one name could look like another."""


def clean_text(text: str) -> str:
    """Replace control characters, surrogates and direction marks by the replacement character. None is printable."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(map(_writable, text))


def _writable(char: str) -> str:
    is_control = char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")
    return "\ufffd" if is_control or char in BIDI else char


@lru_cache(maxsize=2**14)
def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """Text as the label of a chart: clean, on one line, and not too long."""
    words = clean_text(text).replace("\n", " ").replace("\t", " ")
    return words if len(words) <= longest else words[: longest - 1] + "…"
