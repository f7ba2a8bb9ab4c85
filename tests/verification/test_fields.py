"""Every field of the params of every primitive that is traced here counts."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.verification import attacks
from tests.verification.attacks.slots import SLOTS, WITHOUT_MEANING
from tests.verification.attacks.unreached import (
    EQUAL_FLOW,
    FIELD_HOLES,
    FORMS,
    RECOUNTED,
    UNREACHED,
)
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.fingerprint import fingerprint

pytest.importorskip("absl", reason="the harness of JAX needs absl-py")

for _module in pkgutil.iter_modules(attacks.__path__):
    importlib.import_module(f"{attacks.__name__}.{_module.name}")

from tests.verification.attacks import fields  # noqa: E402  (needs absl)

JUDGES: dict[str, Callable[[Any, Any], bool]] = {
    "compare": lambda a, b: compare(a, b) is not None and compare(b, a) is not None,
    "equivalent": lambda a, b: equivalent(a, b) is not None,
    "fingerprint": lambda a, b: fingerprint(a) != fingerprint(b),
}


@functools.cache
def all_pairs() -> list[tuple[tuple[str, str], str, Any, Any]]:
    return [
        ((name, param), *pair)
        for (name, param), seen in fields.seen_fields().items()
        for pair in fields.pairs(name, param, seen)
    ]


@pytest.mark.parametrize("judge", JUDGES)
def test_every_field_counts(judge: str) -> None:
    missed = [
        what
        for field, what, one, other in all_pairs()
        if not (judge == "equivalent" and is_left_out(field, what))
        and not JUDGES[judge](one, other)
    ]
    assert not missed, "\n".join(missed)


def is_left_out(field: tuple[str, str], what: str) -> bool:
    """Whether data flow is the same by its definition."""
    is_form = any(form in what for form in FORMS)
    return (
        field in EQUAL_FLOW or field in FIELD_HOLES or (field in RECOUNTED and is_form)
    )


@pytest.mark.parametrize("field", FIELD_HOLES)
@pytest.mark.xfail(strict=True, reason="left out, and should not be")
def test_a_field_that_is_left_out_counts(field: tuple[str, str]) -> None:
    pairs = [pair for name, *pair in all_pairs() if name == field]
    assert all(JUDGES["equivalent"](one, other) for _, one, other in pairs)


def test_every_field_has_a_pair() -> None:
    with_pair = {field for field, *_ in all_pairs()}
    assert not set(fields.seen_fields()) - with_pair


def test_every_primitive_is_traced_or_listed() -> None:
    script = f"from {fields.__name__} import primitives; print(*primitives())"
    printed = subprocess.run(  # here, other tests may have registered theirs
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    traced = {name for name, _ in fields.seen_fields()}
    assert sorted(set(printed.split()) - traced - UNREACHED.keys()) == []


def test_a_field_of_a_primitive_that_is_not_traced_counts() -> None:
    left = fields.primitives().keys() & UNREACHED.keys()
    assert left
    for name in left:
        one, other = (fields.placeholder(name, n) for n in (0, 1))
        assert all(judge(one, other) for judge in JUDGES.values()), name


@pytest.mark.parametrize("kind", SLOTS)
def test_every_slot_has_a_pair(kind: Any) -> None:
    assert not set(kind.__slots__) - SLOTS[kind] - WITHOUT_MEANING
