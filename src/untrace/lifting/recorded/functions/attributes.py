"""What a method of a library's object is given of it: its attributes, one by one.

An object that is not itself a value of the program, such as a distribution, cannot be
passed. Its arrays are, under the names they have in the object. An attribute that is an
array in one object is passed for all objects of the class, where it may be a number: so
their methods are one function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.writer import Writer
from untrace.objects import attributes_of
from untrace.recovery.record import Body
from untrace.syntax.names import identifier


def attribute_parameters(body: Body, writer: Writer) -> list[tuple[Name, Any]]:
    """Make a parameter of every attribute of `self` that is an array in some object."""
    owner = body.parameters.get("self")
    made: list[tuple[Name, Any]] = []
    for attribute, value in attributes_of(owner).items():
        if writer.values.find(id(value)) is None and _is_passed(
            type(owner), attribute, value, writer
        ):
            name = Name(identifier(attribute.strip("_")), True, is_parameter=True)
            writer.own(name)
            writer.values.add(id(value), name)
            made.append((name, value))
    return made


def _is_passed(kind: type, attribute: str, value: Any, writer: Writer) -> bool:
    program = writer.program
    key = kind, attribute
    if isinstance(value, jaxapi.Tracer):
        if writer.caller is None or writer.caller.locate(id(value)) is None:
            return False
        if key not in program.plan.varying:
            program.plan.varying.add(key)
            program.is_stale |= key in program.not_passed
        return True
    if type(value) not in (float, np.ndarray):
        return False
    if key not in program.plan.varying:
        program.not_passed.add(key)
        return False
    return True
