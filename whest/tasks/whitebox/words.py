"""Words about a white-box run that console and page share."""

from whest.document import Json

LEVEL = 1.25
"""The largest ratio of errors, either way, that is called level."""


def lambda_words(config: Json) -> str:
    """What to know of λ beside its value. Older reports don't tell."""
    return "" if config.get("lambda_has_effect", True) else " (no effect: traced, so no residual time)"


def meter_words(config: Json) -> str:
    """The price list, if it isn't whest's own."""
    return f", meter={config['meter']}" if config.get("meter") else ""


def against_sampling(ratio: float) -> str:
    """The ratio in words. Over a few MLPs two samplers of one variance differ by a quarter."""
    if 1 / LEVEL <= ratio <= LEVEL:
        return "level with plain sampling"
    return f"{'better' if ratio < 1 else 'worse'} than plain sampling"
