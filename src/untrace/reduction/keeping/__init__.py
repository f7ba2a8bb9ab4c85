"""What to keep: predicates on failing programs, their combinations, their text."""

from untrace.errors import KeepError
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.keeping.base import Keep
from untrace.reduction.keeping.checking import Check
from untrace.reduction.keeping.composition import Both, Either, Not
from untrace.reduction.keeping.contents import Command, Contains
from untrace.reduction.keeping.costs import Memory, Recompiles, SlowCompile
from untrace.reduction.keeping.failures import Crashes, Hangs, Raises
from untrace.reduction.keeping.text import PREDICATES, parse_keep
from untrace.reduction.keeping.values import Differs, Inf, Nan

__all__ = [
    "PREDICATES",
    "Auto",
    "Both",
    "Check",
    "Command",
    "Contains",
    "Crashes",
    "Differs",
    "Either",
    "Hangs",
    "Inf",
    "Keep",
    "KeepError",
    "Memory",
    "Nan",
    "Not",
    "Raises",
    "Recompiles",
    "SlowCompile",
    "parse_keep",
]
