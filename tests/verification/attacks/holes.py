"""Pairs that are not told apart. Each is a limit that the report names.

A line says which judges miss which pairs, and why; a pair may be in several. What
`compare` and `equivalent` miss stands in the header of the file ("Not compared: ...").
The fingerprint names a program for another process, where no object is the same: what
counts by identity here is its class and name there. When a test passes of itself
(strict), its name goes.
"""

from __future__ import annotations

import sys

EVERY = "compare equivalent fingerprint"
HOLES: dict[str, dict[str, str]] = {"compare": {}, "equivalent": {}, "fingerprint": {}}
"""By judge: the pairs that it misses, and why."""


def hole(judges: str, why: str, *names: str) -> None:
    """Register pairs that some judges miss."""
    for judge in judges.split():
        HOLES[judge].update(dict.fromkeys(names, why))


def holding(*kinds: str) -> list[str]:
    """The names of pairs of host functions that hold something."""
    return [f"host function holding {kind}" for kind in kinds]


# ---- what is said in the report: "Not compared: ..." -------------------------------

hole(
    EVERY,
    "of five tangents or more it is tried whether all, or those of a gradient, are given",
    "a jvp rule where one of five tangents is given",
    "a vjp rule where one of five cotangents is given",
)
hole(
    EVERY,
    "batching rules are traced with all or one batched, at sizes 2 and 3",
    "batching rule, a large size",
    "batching rule, two of three batched",
)
hole(
    "compare",
    "the third function of one name in rules of rules is not looked at",
    "a rule of a long function, 2 rules deep",
    "a rule of a long function, 3 rules deep",
)
hole(
    EVERY,
    "of more than sixty rules that are looked at for their depth alone, none is",
    "a rule of a long function, 2 rules deep beside many",
)
hole(
    "equivalent",
    "a helper makes such stand-ins anew by every call: they count by name and leaves",
    "a stand-in of leaves for two host functions",
)

# ---- what counts by identity, and has only a name in another process ---------------

hole(
    "fingerprint",
    "what an object changes while it lives, or keeps in C, is no name of a program",
    *holding(
        "a random.Random",
        "a stream",
        "a np.random.Generator",
        "a np.random.RandomState",
        "an iterator",
        "an object with a field _hash",
        "an object whose cached property is set",
        "a dataclass with another attribute",
        "a ufunc made of a function",
        "a log record",
        *(["a struct"] if sys.version_info < (3, 12) else []),
    ),
)
hole(
    "fingerprint",
    "the whole module of a function that may read any name of it is no name of a program",
    "what `globals` in a host function reads of the module",
)
hole(
    "fingerprint",
    "classes, members of enums, modules and primitives are known by their names",
    *holding(
        "a local class",
        "a member of a local enum",
        "a module made by hand",
        "an object of a local class",
        "a partial of a local class",
    ),
    "host function of a local class",
    "trees of classes of one name",
    "host object, its class has the same name",
    "host object with a field, its class has the same name",
    "host object that is a dictionary",
    "primitives of one name",
)
hole(
    "fingerprint",
    "mutable arrays have numbers in the order of their first use",
    "which of two equal refs is written",
    "order of writes to two refs",
    "which of two equal refs is read",
)

UNEQUAL: dict[str, str] = {
    "check, message": "jax 0.10 keeps a traceback in the tree of the error",
    "check, condition": "jax 0.10 keeps a traceback in the tree of the error",
    "check, debug": "jax 0.10 keeps a traceback in the tree of the error",
}
"""Pairs whose first program is not the same as itself, traced anew, and why."""
