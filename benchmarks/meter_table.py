"""Writes the price table of docs/meter.md from the meter's own prices.

python benchmarks/meter_table.py
"""

from pathlib import Path

from whest.metering.table import with_table


def main() -> None:
    page = Path(__file__).parents[1] / "docs" / "meter.md"
    page.write_text(with_table(page.read_text()))


if __name__ == "__main__":
    main()
