"""An inspected file as a page."""

from collections.abc import Sequence

from whest.cost import COLUMNS as COST_COLUMNS
from whest.cost import cost_rows
from whest.notation import count
from whest.page import Block, Cell, Code, Column, Fact, Facts, Headline, Page, Section, Table, Text
from whest.sealed.inspection import RULES, Inspected, Listed
from whest.sealed.sealed import Sealed
from whest.sealed.text import (
    COLUMNS,
    carried_text,
    cells,
    claim,
    constants_text,
    cut,
    facts,
    size_text,
    verdict,
)

MOST_ROWS, MOST_CONSTANTS = 2000, 200


def inspection_page(sealed: Sealed, inspected: Sequence[Inspected]) -> Page:
    """What the file says of itself, then each shape."""
    told = dict(facts(sealed))
    blocks: list[Block] = [_headline(sealed, inspected), Facts(facts(sealed), "what the file says about itself")]
    blocks += [_entry(each) for each in inspected]
    return Page(told["name"], f"a sealed program of {told['author']}", blocks, kind="sealed program", is_wide=True)


def _headline(sealed: Sealed, inspected: Sequence[Inspected]) -> Headline:
    first = inspected[0]
    operations = sum(program.n_operations for program in first.programs)
    n_bytes = sum(constant.n_bytes for constant in first.constants)
    tripped = any(each.suspicions for each in inspected)
    dearest = max(program.cost.flops for program in first.programs)
    return Headline(
        "FLOPs",
        f"{dearest:,}",
        f"counted anew, {first.entry.purpose}",
        facts=(
            Fact("operations", f"{operations:,}"),
            Fact("constants", size_text(n_bytes)),
            Fact("looks like a table of answers", "look" if tripped else "no", tone="warn" if tripped else "good"),
            Fact("shapes", str(len(inspected))),
        ),
    )


def _entry(each: Inspected) -> Section:
    blocks: list[Block] = [
        Text(verdict(each), tone="warn" if each.suspicions else "plain"),
        *(Text(f"Rule {one.rule}: {one.what}.", tone="warn") for one in each.suspicions),
        Text(claim(each), tone="plain" if each.claims_hold else "bad"),
        Facts(list(RULES.items()), "the rules"),
        Text(f"Constants: {constants_text(each.constants)}."),
        Text(f"Carried: {carried_text(each.carried)}."),
    ]
    if each.constants:
        rows = [
            (one.program, one.dtype, "×".join(map(str, one.shape)), _bytes(one.n_bytes), _bytes(one.packed_bytes))
            for one in each.constants[:MOST_CONSTANTS]
        ]
        columns = ("program", "kind", "shape", "size", "under deflate")
        blocks.append(Table(columns, rows, "arrays that it carries"))
    for program in each.programs:
        blocks += _program(program)
    return Section(str(each.entry.purpose), blocks)


def _bytes(number: int) -> Cell:
    return Cell(size_text(number), sort=number)


def _program(program: Listed) -> list[Block]:
    signature = f"{cut(', '.join(program.inputs))} → {cut(', '.join(program.outputs))}"
    columns = [Column(name, is_numeric=place >= 4) for place, name in enumerate(COLUMNS)]
    shown = [cells(row) for row in program.rows[:MOST_ROWS]]
    rest = program.n_operations - len(shown)
    caption = f"{program.name}: {count(program.n_operations, 'operation')}" + (f", {rest:,} not shown" if rest else "")
    return [
        Code(signature, caption=program.name),
        Table(COST_COLUMNS, cost_rows(program.cost), f"{program.name}: {program.cost.flops:,} FLOPs"),
        Table(columns, shown, caption),
    ]
