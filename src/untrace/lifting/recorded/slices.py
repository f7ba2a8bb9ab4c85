"""Write several items of a container in a row as a slice of it: `params[:4]`, `layers[1:]`.

Python has built the list or the tuple before a function is given it, so nothing but its
items is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace.capture.dict_keys import spelled
from untrace.lifting.recorded.naming.paths import part_of
from untrace.lifting.recorded.terms import Term, placed
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.bytecode import has_slice
from untrace.recovery.record import is_library_class
from untrace.syntax.precedence import ATOM
from untrace.syntax.steps import Attribute, Item, Path, Slice

MIN_ITEMS = 3
MIN_FIELDS = 4  # whose names say more than where they are


@optional(gives(None))
def slice_term(value: Sequence[Any], writer: Writer) -> Term | None:
    """Write a list or tuple as a slice, if a name holds what has its items in a row."""
    if len(value) < MIN_ITEMS:
        return None
    found = [writer.locate(writer.values.key(item)) for item in value]
    places = [place for place in found if place is not None and place[1]]
    if len(places) < len(found) or len({id(name) for name, _ in places}) > 1:
        return None
    name, first = places[0]
    container = first[:-1]
    whole = part_of(name.held, container)
    if not isinstance(whole, type(value)):
        return None
    fields = getattr(whole, "_fields", None)
    if fields and (len(value) < MIN_FIELDS or is_library_class(type(whole))):
        return None  # the stand-in may have less fields
    if fields and not _may_slice(writer):
        return None  # the names of fields say more
    last = map(Attribute, fields) if fields else map(Item, range(len(whole)))
    paths: list[Path] = [(*container, step) for step in last]
    start = paths.index(first) if first in paths else len(paths)
    stop = start + len(value)
    if [path for _, path in places] != paths[start:stop] or len(value) == len(paths):
        return None
    bounds = Slice(start or None, None if stop == len(paths) else stop)
    owner = writer.reach((name, container), is_tree=True)
    return Term([*placed(owner, ATOM), spelled((bounds,))])


def _may_slice(writer: Writer) -> bool:
    """Whether the program has a slice in the function whose call is written."""
    item, runs = writer.program.item, writer.program.open_runs
    if item is not None and item.place is not None:
        return has_slice(item.place.code)
    code = runs[-1].code if runs else writer.program.main_code
    return code is None or has_slice(code)
