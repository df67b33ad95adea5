"""Documents gone wrong: seeded changes to a tree of lists and objects, as a hostile worker could send it."""

import copy
from random import Random
from typing import Any

Slot = tuple[Any, Any]
"""A list or an object, and a place in it."""

NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, 2**40, 2**63, -(2**62), 10**30, 0.5, -1e308, float("nan"), float("inf"))
TEXTS = ("", "a", "mul", "while", "pure_callback", "reduce", "float64", "V9999", "key", "é\x00", "x" * 5000)


def slots(document: Any) -> list[Slot]:
    """Every place of the tree."""
    found, waiting = [], [document]
    while waiting:
        node = waiting.pop()
        keys: Any = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    return found


def mutated(document: Any, draw: Random) -> Any:
    """The document with one to four changes."""
    changed = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = slots(changed)
        if not places:
            return changed
        node, key = draw.choice(places)
        draw.choice((_put_odd, _put_odd, _nudge, _nudge, _graft, _graft, _drop, _repeat))(node, key, places, draw)
    places = slots(changed)
    if places and draw.random() < 0.1:
        _bury(*draw.choice(places), draw)
    return changed


def _put_odd(node: Any, key: Any, places: list[Slot], draw: Random) -> None:
    odd = (None, True, [], {}, [[]], {"scalar": "a"}, {"array": 99}, {"tuple": 3}, {"program": {}}, draw.choice(TEXTS))
    node[key] = draw.choice((draw.choice(odd), draw.choice(NUMBERS), draw.choice(TEXTS)))


def _nudge(node: Any, key: Any, places: list[Slot], draw: Random) -> None:
    """A whole number of the tree becomes another, which often still makes sense."""
    numbers = [(at, place) for at, place in places if type(at[place]) is int]
    if numbers:
        at, place = draw.choice(numbers)
        at[place] = draw.choice((at[place] + 1, at[place] - 1, -at[place], 2 * at[place], 10**6 * at[place]))


def _graft(node: Any, key: Any, places: list[Slot], draw: Random) -> None:
    other, place = draw.choice(places)
    node[key] = copy.deepcopy(other[place])


def _drop(node: Any, key: Any, places: list[Slot], draw: Random) -> None:
    del node[key]


def _repeat(node: Any, key: Any, places: list[Slot], draw: Random) -> None:
    if isinstance(node, list):
        node[key:key] = [copy.deepcopy(node[key]) for _ in range(draw.choice((1, 2, 50)))]


def _bury(node: Any, key: Any, draw: Random) -> None:
    """Far inside lists or objects."""
    for _ in range(draw.choice((1, 20, 150))):
        node[key] = draw.choice(([node[key]], {"tuple": [node[key]]}))
