"""Small functions that a generated module defines when it needs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """Source of a helper (its name is the key in `HELPERS`) and what it imports."""

    source: str
    imports: tuple[str, ...] = ()


HELPERS: dict[str, Helper] = {
    "named": Helper(
        '''\
def named(name):
    """Set the name under which JAX knows a function."""

    def rename(function):
        function.__name__ = name
        return function

    return rename
'''
    ),
}
