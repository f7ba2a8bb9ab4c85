"""The pass `unify`: functions that are alike but for what they could be given become one.

It works on functions that are written, read by Python's own parser (`syntax.parsed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.alike import Likeness, grouped
from untrace.lifting.recorded.unify.copies import share_heads, share_names
from untrace.lifting.recorded.unify.keys import alike_but_for_keys, give_parts
from untrace.lifting.recorded.unify.names import by_stem, close_gaps, stem_of
from untrace.lifting.recorded.unify.numbers import (
    Merged,
    likeness,
    merge_numbers,
)
from untrace.lifting.recorded.unify.optional_functions import give_none
from untrace.optional import makes, optional


@optional(makes(set))
def merge_alike(
    functions: list[Function],
    main: Function,
    found: dict[Likeness, Merged],
    makes_keys: bool = True,
    may_merge: Callable[[str], bool] = lambda stem: True,
    renamed: dict[Likeness, Function] | None = None,
) -> set[str]:
    """Merge the functions of a module that differ in numbers; return their names.

    The names are without the number of one that others have, too. By them, `may_merge`
    tells which functions may be merged.

    Functions that call those that have become one may be alike then. What was done is
    added to `found`, by what the functions have in common, and to `renamed` those that
    others have their names from. Where keys may be made of
    names, `f"{name}/mean"`, functions that read others are merged, too.
    """
    before = [function.name for function in functions]
    share_heads(functions)
    share_names(functions, main, {} if renamed is None else renamed)
    merged = _merge_lacking(functions, main, found, makes_keys, may_merge)
    while more := (
        _merge_groups(functions, main, found, may_merge, takes_copies=True)
        or _merge_parts(functions, main, makes_keys, may_merge)
    ):
        merged |= more
    left = {function.name for function in functions}
    close_gaps([*functions, main], [name for name in before if name not in left])
    return merged


def _merge_groups(
    functions: list[Function],
    main: Function,
    found: dict[Likeness, Merged],
    may_merge: Callable[[str], bool],
    takes_copies: bool = False,
) -> set[str]:
    """Merge functions that differ in numbers, or in nothing if copies are taken, too."""
    merged: set[str] = set()
    able = [one for one in functions if may_merge(stem_of(one.name))]
    for group in grouped(able, likeness):
        n_texts = len({tuple(function.lines) for function in group})
        if n_texts > 1 or takes_copies:
            key = likeness(group[0])  # other groups are called by one name by now
            made = merge_numbers(group, functions, main)
            if made is not None:
                found[key] = made
                merged.add(stem_of(group[0].name))
    return merged


def _merge_parts(
    functions: list[Function],
    main: Function,
    makes_keys: bool,
    may_merge: Callable[[str], bool],
) -> set[str]:
    """Merge functions that read other parts of what they are given."""
    able = [one for one in functions if may_merge(stem_of(one.name))]
    for group in alike_but_for_keys(able):
        before = [(one, replace(one)) for one in [*functions, main]]
        is_given = give_parts(group, [*functions, main], makes_keys)
        is_one = is_given and len(set(map(likeness, group))) == 1
        if is_one and merge_numbers(group, functions, main):
            return {stem_of(group[0].name)}
        _restore(before)
    return set()


def _merge_lacking(
    functions: list[Function],
    main: Function,
    found: dict[Likeness, Merged],
    makes_keys: bool,
    may_merge: Callable[[str], bool],
) -> set[str]:
    """Merge functions that read other parts, some of which apply another function as well."""
    merged: set[str] = set()
    for stem, group in by_stem(functions).items():
        if len(group) < 2 or not may_merge(stem):
            continue
        before = [(one, replace(one)) for one in [*functions, main]]
        of_found, all_functions = dict(found), [*functions]
        lacking = give_none(group, [*functions, main])
        is_this = {stem}.__contains__
        while lacking and _merge_groups(functions, main, found, is_this):
            pass
        while lacking and _merge_parts(functions, main, makes_keys, is_this):
            pass
        if not any(one in functions for one in lacking):
            merged |= {stem} if lacking else set()
            continue
        functions[:] = all_functions
        found.clear()
        found.update(of_found)
        _restore(before)
    return merged


def _restore(before: Sequence[tuple[Function, Function]]) -> None:
    """Let functions be as they were."""
    for one, saved in before:
        for field in fields(Function):
            setattr(one, field.name, getattr(saved, field.name))
