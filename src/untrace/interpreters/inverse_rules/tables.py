"""The modules that hold rules: importing them fills the tables."""

from untrace.interpreters.inverse_rules import (
    control,
    cumulative,
    elementwise,
    linear,
    permutations,
    structure,
)

TABLES = elementwise, structure, permutations, linear, cumulative, control
