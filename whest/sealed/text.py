"""An inspected file as text: what it says about itself, its costs, its constants, and its operations line by line."""

from collections.abc import Iterator, Sequence

from whest.cost import cost_text
from whest.isolation.listing import Row
from whest.notation import count, printable, text_table
from whest.sealed.carried import Carried
from whest.sealed.container import Header
from whest.sealed.inspection import RULES, Constant, Inspected, Listed
from whest.sealed.sealed import Sealed

MOST_CONSTANTS, MOST_LETTERS = 12, 70


def size_text(n_bytes: int) -> str:
    for unit, size in (("MB", 2**20), ("kB", 2**10)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return count(n_bytes, "byte")


def facts(sealed: Sealed) -> list[tuple[str, str]]:
    """What the file says about itself. All of it is the author's, except its size and sha256."""
    header: Header = sealed.header
    versions = header.versions
    return [
        ("name", printable(header.name)),
        ("author", printable(header.author) or "–"),
        ("words", printable(header.words) or "–"),
        ("sealed for", "; ".join(str(entry.purpose) for entry in header.entries)),
        ("sealed with", f"whest {versions.whest}, JAX {versions.jax}, meter {versions.meter}"),
        ("source", f"sha256 {header.source_sha256}" if header.source_sha256 else "not said"),
        ("file", f"{size_text(sealed.n_bytes)}, sha256 {sealed.sha256}"),
    ]


def text_of(sealed: Sealed, inspected: Sequence[Inspected], most_rows: int | None) -> str:
    """The whole inspection; of each program the first `most_rows` operations."""
    lines = [f"{label:<12} {value}" for label, value in facts(sealed)]
    for each in inspected:
        lines += ["", *_entry_lines(each, most_rows)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _entry_lines(each: Inspected, most_rows: int | None) -> Iterator[str]:
    yield f"== {each.entry.purpose} =="
    yield f"{'answers':<12} {verdict(each)}"
    yield from (f"{'':<12} rule {one.rule}: {one.what}" for one in each.suspicions)
    yield f"{'count':<12} {claim(each)}"
    yield f"{'constants':<12} {constants_text(each.constants)}"
    for constant in each.constants[:MOST_CONSTANTS]:
        yield f"{'':<12} {constant_text(constant)}"
    yield f"{'carried':<12} {carried_text(each.carried)}"
    if each.entry.recipe is not None:
        yield f"{'recipe':<12} {', '.join(f'{key}={value}' for key, value in each.entry.recipe.items())}"
    for program in each.programs:
        yield from ("", program_title(program), "", cost_text(program.cost), "", listing_text(program, most_rows))


def verdict(each: Inspected) -> str:
    """Whether it looks like a table of answers."""
    if each.entry.purpose.task != "whitebox":
        return "a learner, whose constants are limited instead (docs/learners.md)"
    if not each.suspicions:
        return f"it does not look like a table of answers, by the rules {', '.join(RULES)}"
    names = ", ".join(dict.fromkeys(one.rule for one in each.suspicions))
    return f"look at it: it trips the rule{'s' * (names.count(',') > 0)} {names} of {', '.join(RULES)}"


def claim(each: Inspected) -> str:
    return (
        "the file's FLOPs are those that were counted"
        if each.claims_hold
        else "the file states other FLOPs than were counted; the count below is ours"
    )


def constants_text(constants: Sequence[Constant]) -> str:
    if not constants:
        return "none beyond lone numbers"
    whole, packed = sum(c.n_bytes for c in constants), sum(c.packed_bytes for c in constants)
    return f"{count(len(constants), 'array')}, {size_text(whole)}, {size_text(packed)} under deflate"


def carried_text(carried: Carried) -> str:
    """The count that `contest.limit_constants` limits."""
    kinds = f"arrays {carried.arrays:,}, lone numbers {carried.numbers:,}, shapes and places {carried.structure:,}"
    return f"{count(carried.n_bytes, 'byte')} as a contest counts them: {kinds}"


def constant_text(constant: Constant) -> str:
    shape = ",".join(map(str, constant.shape))
    sizes = f"{size_text(constant.n_bytes)}, {size_text(constant.packed_bytes)} under deflate"
    return f"{constant.program}: {constant.dtype}[{shape}], {sizes}"


def program_title(program: Listed) -> str:
    loops = f", {count(program.n_open_loops, 'loop')} by the data" if program.n_open_loops else ""
    signature = f"{', '.join(program.inputs)} → {', '.join(program.outputs)}"
    return f"-- {program.name}: {cut(signature)}; {count(program.n_operations, 'operation')}{loops} --"


COLUMNS = ("operation", "results", "operands", "scope", "rounds", "FLOPs")


def listing_text(program: Listed, most_rows: int | None) -> str:
    shown = program.rows if most_rows is None else program.rows[:most_rows]
    rest = program.n_operations - len(shown)
    table = text_table(COLUMNS, [cells(row) for row in shown], left=4)
    return table + (f"\n… {count(rest, 'operation')} more" if rest else "")


def cells(row: Row) -> tuple[str, ...]:
    rounds = "by the data" if row.rounds is None else f"{row.rounds:,}"
    flops = "" if row.flops is None else f"{row.flops:,.0f}"
    name = "  " * min(row.depth, 12) + printable(row.operation)
    return name, cut(row.results), cut(row.operands), cut(row.scope), rounds, flops


def cut(text: str) -> str:
    clean = printable(text)
    return clean if len(clean) <= MOST_LETTERS else f"{clean[: MOST_LETTERS - 1]}…"
