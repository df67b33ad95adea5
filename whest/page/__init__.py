"""A page: what a run, a sweep, a comparison or a board shows, as one HTML file that needs nothing else."""

from whest.page.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Fact,
    Facts,
    Gauge,
    Headline,
    Page,
    Picture,
    Section,
    Table,
    Text,
)
from whest.page.charts import literal, new_figure
from whest.page.render import render, save_page

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Column",
    "Fact",
    "Facts",
    "Gauge",
    "Headline",
    "Page",
    "Picture",
    "Section",
    "Table",
    "Text",
    "literal",
    "new_figure",
    "render",
    "save_page",
]
