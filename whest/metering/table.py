"""The price table as Markdown, made from the prices themselves: the section of docs/meter.md between its two marks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from whest.metering.elementwise import COMPLEX, DOUBLE, HALF, ONE, SEVERAL
from whest.metering.prices import FORMULAS, FREE, LAPACK, REFUSED
from whest.metering.regions import REDUCED_BY, REGION_FORMULAS, SUMMED_BY, WINDOWED_BY

BEGIN = "<!-- prices: written by `python benchmarks/meter_table.py`, not by hand -->"

END = "<!-- end of prices -->"

NAMED = {*ONE, *SEVERAL, *REDUCED_BY, *SUMMED_BY, *WINDOWED_BY}


def price_table() -> str:
    """Every operation that has a price, is free or is refused."""
    parts = [_elementwise(), _repeated(), _formulas(), _free(), _refused()]
    return "\n\n".join([BEGIN, *parts, END]) + "\n"


def with_table(page: str) -> str:
    """A page with its price table made new."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(f"{END}\n")
    return before + price_table() + after


def _rows(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(header), ["---"] * len(list(header)), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _names(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in sorted(names))


def _elementwise() -> str:
    def figures(name: str) -> tuple[object, ...]:
        real = 1 if name in ONE else SEVERAL[name]
        return real, real + HALF.get(name, 0), DOUBLE.get(name, 2 * real), COMPLEX.get(name, 2 * real)

    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name in {*ONE, *SEVERAL}:
        groups[figures(name)].append(name)
    rows = [(_names(names), *figures) for figures, names in sorted(groups.items(), key=lambda item: str(item[1]))]
    rows.sort(key=lambda row: (float(str(row[1])), float(str(row[4]))))
    return "Per element of the result:\n\n" + _rows(("operation", "real", "16 bits", "64 bits", "complex64"), rows)


def _repeated() -> str:
    kinds: tuple[tuple[Mapping[str, str], str], ...] = (
        (REDUCED_BY, "(elements in − elements out) × the operation it repeats"),
        (SUMMED_BY, "elements × the operation it repeats"),
        (WINDOWED_BY, "elements out × (window − 1) × the operation it repeats"),
    )
    return "Repeated operations:\n\n" + _rows(("operation", "price"), [(_names(names), text) for names, text in kinds])


def _formulas() -> str:
    found: dict[str, list[str]] = defaultdict(list)
    every: dict[str, Callable[..., float]] = {**FORMULAS, **REGION_FORMULAS}
    for name, formula in every.items():
        if name not in NAMED:
            found[_told(formula)].append(name)
    rows = [(_names(names), text, "× 4" if set(names) & {*LAPACK, "dot_general", "conv_general_dilated"} else "")
            for text, names in sorted(found.items(), key=lambda item: min(item[1]))]  # fmt: skip
    return "Others:\n\n" + _rows(("operation", "price in float32", "complex"), rows)


def _told(formula: Callable[..., float]) -> str:
    return (formula.__doc__ or "").strip().splitlines()[0].rstrip(".")


def _free() -> str:
    return f"Free, because no arithmetic is done and nothing is chosen by data: {_names(FREE)}."


def _refused() -> str:
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in REFUSED.items():
        reasons[reason].append(name)
    return "Refused:\n\n" + _rows(("operation", "because it"), [(_names(names), why) for why, names in reasons.items()])
