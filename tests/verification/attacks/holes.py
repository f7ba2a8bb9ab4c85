"""Pairs that are not told apart yet. Each is a fault: its test fails until it is mended.

A line says which judges miss which pairs, and why; a pair may be in several. When a
test passes of itself (strict), its name goes.
"""

from __future__ import annotations

import sys

EVERY = "compare equivalent fingerprint"
HOLES: dict[str, dict[str, str]] = {"compare": {}, "equivalent": {}, "fingerprint": {}}
"""By judge: the pairs that it misses, and why."""


def hole(judges: str, why: str, *names: str, since: tuple[int, int] = (3, 11)) -> None:
    """Register pairs that some judges miss, from some version of Python on."""
    if sys.version_info >= since:
        for judge in judges.split():
            HOLES[judge].update(dict.fromkeys(names, why))


def holding(*kinds: str) -> list[str]:
    """The names of pairs of host functions that hold something."""
    return [f"host function holding {kind}" for kind in kinds]


def second_uses(*kinds: str) -> list[str]:
    """The names of pairs of rules with a static argument, used twice."""
    return [
        f"static argument of a custom_{derivative}, {kind}, of a second use"
        for kind in kinds
        for derivative in ("vjp", "jvp")
    ]


# rules.py, `_collect`: the identity of rules leaves out what classes of builtins, numpy
# and jax hold.
hole(
    "compare",
    "the identity of rules leaves static arguments of such classes out",
    *second_uses(
        "frozenset",
        "frozenset of strings",
        "bytes",
        "range",
        "range, step alone",
        "slice",
        "dtype",
        "dtype, byte order",
        "lax.Precision",
        "lax.GatherScatterMode",
        "module",
        "tuple of bytes",
        "partial of a frozenset",
        "registered static",
        "registered static of bytes",
        "treedef",
        "treedef, keys",
        "partition spec",
        "shape and type",
        "mapping proxy",
        "set",
        "bytearray",
        "device",
        "primitive",
        "abstract value",
    ),
)
hole(
    "compare",
    "the identity of rules takes -0.0 for 0.0",
    *second_uses("sign of zero", "sign of zero, complex"),
)
hole(
    "compare",
    "the identity of rules is flat, and has every object only once",
    *second_uses(
        "tuple, where it is nested",
        "tuple, how often",
        "tuple, depth",
        "tuple of a list",
        "namedtuple or tuple",
    ),
)
hole(
    "compare",
    "rules that were the same once count as the same in every context and at every type",
    "a rule used in another context",
    "batching rule used at another size",
)

# rules.py: rules are traced with every tangent, and not in every way.
hole(
    EVERY,
    "rules are traced with every tangent given (noted)",
    "a jvp rule where a tangent is zero",
    "a vjp rule where an operand is not perturbed",
)
hole(
    EVERY,
    "batching rules are traced with all or one batched, at sizes 2 and 3 (noted)",
    "batching rule, a large size",
    "batching rule, two of three batched",
)
hole(
    "equivalent fingerprint",
    "rules four rules deep are not looked at (noted)",
    *[f"a {kind}rule {depth} rules deep" for kind in ("", "long ") for depth in (4, 6)],
)
hole(
    "compare",
    "the third function of one name in rules of rules is not looked at (noted)",
    "a rule of a long function, 2 rules deep",
    "a rule of a long function, 3 rules deep",
)

# canonical.py: what an object holds.
hole(
    EVERY,
    "the class of a number is left out: that of numpy changes types",
    *holding(
        "a numpy float or a number",
        "a numpy integer or a number",
        "numpy integers of two widths",
        "a numpy bool or a bool",
        "a float subclass or a float",
        "an int subclass or an int",
    ),
)
hole(
    EVERY,
    "the class of a number is left out: that of numpy changes types",
    *[
        f"attribute of a {call}, {kind}"
        for kind in ("i32 or i64", "i8 or i32", "i32 or u32", "number or i32")
        for call in ("composite", "foreign call")
    ],
    "attribute of a foreign call, i32 in a dictionary",
)
hole(
    EVERY,
    "the class of a set or an array, and what it holds beside, is left out",
    *holding(
        "a set or a frozenset",
        "a masked array",
        "a matrix or an array",
        "a jax array or a numpy array",
    ),
)
hole(
    EVERY,
    "the order of a dictionary, and its default, is left out",
    *holding("a dictionary in another order", "an ordered dictionary", "a defaultdict"),
)
hole(
    EVERY,
    "a subclass of a container or exception is that container or its attributes alone",
    *holding(
        "a dictionary with an attribute",
        "a list with an attribute",
        "an exception with an attribute",
        "a random.Random",
    ),
)
hole(
    EVERY,
    "classes written in C without fields count as keeping no state",
    *holding("an array of bytes", "a regular expression", "a struct"),
)
hole(
    EVERY,
    "classes written in C without fields count as keeping no state",
    *holding(
        "a deque",
        "a subclass of deque",
        "a decimal",
        "equal decimals",
        "a stream",
        "a count",
    ),
    since=(3, 12),
)
hole(
    "equivalent fingerprint",
    "objects of which nothing can be said count as the same if they read alike",
    *holding(
        "a bytearray that reads like an address",
        "a stream",
        "a np.random.Generator",
        "a np.random.RandomState",
        "an iterator",
        "code",
    ),
)
hole(
    "compare",
    "objects of one class that are `==` count as the same",
    *holding(
        "equal ranges with other ends",
        "equal decimals",
        "an object whose == looks at nothing",
    ),
)
hole(
    EVERY,
    "fields with names of caches, or that are no fields of the dataclass, are left out",
    *holding(
        "an object with a field _hash",
        "an object with mangled slots",
        "an object whose cached property is set",
        "a dataclass with another attribute",
        "a subclass of a dataclass",
        "a function with an attribute",
    ),
)
hole(
    EVERY,
    "classes, members of enums and modules are their names",
    *holding("a local class", "a member of a local enum", "a module made by hand"),
)
hole(
    "equivalent fingerprint",
    "classes, members of enums and modules are their names",
    *holding("an object of a local class"),
)
hole(
    EVERY,
    "ufuncs made of functions raise AttributeError",
    *holding("a ufunc made of a function"),
)
hole(
    EVERY,
    "the names of arguments are left out of code",
    "host function, names of its keywords",
)
hole(EVERY, "globals are only noted", "host function, a global")
hole(
    EVERY,
    "aliases among what host functions hold are left out",
    "host functions that share a counter",
)
hole(
    EVERY,
    "where a constant lies is left out",
    "constant on another device",
    "constant on several devices",
)

# values.py, keys.py, equivalence.py
hole(
    EVERY,
    "refs have numbers in the order of their first use",
    "which of two equal refs is written",
    "order of writes to two refs",
    "which of two equal refs is read",
)
hole(
    "compare",
    "a ref that both programs share gets no number",
    "which ref is read after a write",
    "which ref is read after both are used",
)
hole(
    "equivalent",
    "draws have no effect, and count as pure",
    "two draws or one that is used twice",
    "two draws or one, in results",
    "two draws or one, in calls",
    "order of two draws",
    "a draw that is dropped",
)

# deeper.py
hole(
    EVERY,
    "a rule in its own rule, told by that identity, counts as the same",
    "rule that calls its own function, frozenset",
    "rule that calls its own function, bytes",
)
hole(EVERY, "primitives are their names and classes", "primitives of one name")
hole(
    EVERY,
    "classes, members of enums and modules are their names",
    "trees of classes of one name",
    "host object, its class has the same name",
    "host object with a field, its class has the same name",
    "host object that is a dictionary",
)
hole(
    EVERY,
    "the class of a set or an array, and what it holds beside, is left out",
    *holding(
        "an array in another order", "a numpy scalar or an array of no dimensions"
    ),
)
hole(
    EVERY, "of a log record the name and the level are taken", *holding("a log record")
)
hole(
    EVERY,
    "keys of dictionaries that read alike raise TypeError: they are sorted",
    *holding("a dictionary whose keys are objects"),
)
hole(
    "compare equivalent",
    "one stand-in is taken for all host functions of its name (noted)",
    "two host functions and one that stands in for both",
)
hole(
    "compare",
    "types are compared by their `==`, which leaves this out",
    "type of a ref, kind",
)
hole(
    "equivalent",
    "calls are opened though their mesh says which devices",
    "devices of the mesh around a call",
)

UNEQUAL: dict[str, str] = {
    "check, message": "jax 0.10 keeps a traceback in the tree of the error",
    "check, condition": "jax 0.10 keeps a traceback in the tree of the error",
    "check, debug": "jax 0.10 keeps a traceback in the tree of the error",
    "host function holding a ufunc made of a function": "raises AttributeError",
    "host function holding a dictionary whose keys are objects": "raises TypeError",
}
"""Pairs whose first program is not the same as itself, traced anew, and why."""
