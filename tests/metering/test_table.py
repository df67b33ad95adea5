"""The price table of docs/meter.md is the meter's own."""

from tests.support.places import ROOT
from whest.metering.prices import FORMULAS, FREE, REFUSED
from whest.metering.regions import REGIONS
from whest.metering.table import price_table, with_table


def test_the_page_has_the_prices_that_are_charged():
    page = (ROOT / "docs" / "meter.md").read_text()
    assert with_table(page) == page, "run `python benchmarks/meter_table.py`"


def test_every_operation_is_in_it_and_has_words():
    table = price_table()
    assert all(f"`{name}`" in table for name in {*FORMULAS, *REGIONS, *FREE, *REFUSED})
    assert "|  |  |" not in table
