"""Idioms: public calls that are found again in equations, by tracing them."""

import importlib

TABLES = (
    "networks",
    "operators",
    "indexing",
    "reducing",
    "arrays",
    "windows",
    "library",
    "sampling",
)


def load() -> None:
    """Import the tables, which registers their idioms."""
    for name in TABLES:
        importlib.import_module(f"untrace.lifting.idioms.{name}")
