"""Figures for pages: drawn by matplotlib, written as SVG with the colours and fonts of the page.

Each colour of the palette becomes a CSS variable, so a figure follows the page's light or dark theme.
"""

import io
import re
import unicodedata
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from whest.page.palette import ACCENT, ALARM, GRID, INK, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.5
"""In inches. On a phone, a point is then about a pixel, so labels stay readable."""
SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
XML = "{http://www.w3.org/XML/1998/namespace}"
URL = re.compile(r"url\(#([^)]+)\)")
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")
TEXTUAL = ("text", "tspan", "title", "desc")

NAMES = {INK: "ink", ACCENT: "accent", MUTED: "muted", ALARM: "alarm", GRID: "grid"} | {
    colour: f"series-{i}" for i, colour in enumerate(SERIES[2:], start=3)
}

VARIABLES = {colour: f"var(--{name})" for colour, name in NAMES.items()} | {"#000000": "var(--ink)"}
ACTIVE = {f"{SVG}{name}" for name in ("script", "foreignObject", "a", "animate", "set", "style")}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.prop_cycle": f"cycler(color={list(SERIES)})",
}


def new_figure(height: float = 3.2) -> "tuple[Figure, Axes]":
    """An empty chart in whest's style."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        return figure, _plain_axes(figure)


def new_small_figure() -> "tuple[Figure, Axes]":
    """A small chart with fixed margins for short labels: computing its layout would take longer than drawing it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"font.size": 8, "xtick.major.size": 2, "ytick.major.size": 2}):
        figure = Figure(figsize=(1.9, 1.7))
        figure.subplots_adjust(left=0.2, right=0.97, bottom=0.14, top=0.97)
        return figure, _plain_axes(figure)


def _plain_axes(figure: "Figure") -> "Axes":
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    return axes


def literal(text: str, longest: int = 48) -> str:
    """Text from a user as a label: without formulas and control characters, and not too long for a chart."""
    words = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in text)
    short = words if len(words) <= longest else words[: longest - 1] + "…"
    return short.replace("\\", "/").replace("$", r"\$")


def draw_gauge(share: float, floor: float | None) -> "Figure":
    """A bar from 0 to 1, filled to `share`, with a line at the floor: the part below it costs nothing."""
    figure, axes = new_figure(height=0.6)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    shown = min(max(share, 0.0), 1.12)
    axes.barh(0, 1, color=GRID, height=0.8)
    axes.barh(0, shown, color=ALARM if share > 1 else ACCENT, height=0.8)
    ticks = {0.0: "0", 0.5: "50 %", 1.0: "100 %"}
    if floor is not None:
        axes.axvline(floor, color=INK, linewidth=1.4, linestyle=(0, (2, 1.5)))
        ticks[floor] = f"floor {floor:.0%}"
    axes.set(xlim=(0, max(1.02, shown)), ylim=(-0.5, 0.5), yticks=[])
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.tick_params(length=0)
    return figure


def svg_of(figure: "Figure | str", label: str, number: int = 1) -> str:
    """The figure as an SVG element for HTML: the page's colours, ids from its number, no scripts or links."""
    root = ElementTree.fromstring(figure if isinstance(figure, str) else _write_svg(figure))
    if root.tag != f"{SVG}svg":
        raise ValueError(f"a picture must be an SVG element, got {root.tag}")
    _remove_active(root)
    referred = {ref for element in root.iter() for item in element.attrib.items() for ref in _references(*item)}
    ids = {ref: f"f{number}-{i}" for i, ref in enumerate(sorted(referred))}
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        kept = {name: value for name, value in element.attrib.items() if _is_kept(name, value, ids)}
        element.attrib = {name.removeprefix(XLINK): _rewrite(name, value, ids) for name, value in kept.items()}
        element.tail = None
        element.text = element.text if element.tag in TEXTUAL else None
    _share_styles(root)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _write_svg(figure: "Figure") -> str:
    import matplotlib as mpl

    file = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE | {"svg.hashsalt": "whest"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # text stays text: the browser's fonts draw it
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return file.getvalue()


def _remove_active(element: ElementTree.Element) -> None:
    """Remove scripts, links, animations, and all elements that are not SVG."""
    for child in list(element):
        if child.tag in ACTIVE or not str(child.tag).startswith(SVG):
            element.remove(child)
        else:
            _remove_active(child)


def _references(name: str, value: str) -> list[str]:
    """The ids that an attribute refers to: `#id` in a link, `url(#id)` in any other."""
    return [value[1:]] if name.endswith("href") and value.startswith("#") else URL.findall(value)


def _is_kept(name: str, value: str, ids: Mapping[str, str]) -> bool:
    if name == "id":
        return value in ids
    if name.endswith("href"):
        return value.startswith(("#", "data:image/png"))
    is_loading = "url(" in URL.sub("", value)
    return not is_loading and not name.lower().startswith("on") and not name.startswith(XML)


def _rewrite(name: str, value: str, ids: Mapping[str, str]) -> str:
    if name == "id":
        return ids[value]
    if name.endswith("href"):
        return f"#{ids[value[1:]]}" if value.startswith("#") else value
    for colour, variable in VARIABLES.items():
        value = value.replace(colour, variable)
    value = URL.sub(lambda match: f"url(#{ids[match[1]]})", value)
    return LONG_NUMBER.sub(r"\1", value) if name in ("d", "x", "y", "width", "height", "transform") else value


def _share_styles(root: ElementTree.Element) -> None:
    """If all points of a group have the same style, move it to the group. This makes the page smaller."""
    for group in root.iter("g"):
        styles = {child.get("style") for child in group}
        if len(group) > 1 and len(styles) == 1 and all(child.tag == "use" for child in group):
            group.set("style", str(styles.pop()))
            for child in group:
                del child.attrib["style"]
