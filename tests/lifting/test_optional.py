"""A step that only makes text better may raise or write garbage: nothing else is lost."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace
import untrace.symbolic  # its steps are listed too
from tests.lifting.optional_programs import CASES, X, print_nothing, unread
from untrace import idiomatic, optional
from untrace.ir import Block
from untrace.lifting import lift
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Function
from untrace.lifting.recorded import listing
from untrace.lifting.recorded.building import text_term
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.tree import Draft, Statement
from untrace.optional import (
    NOTE,
    STEPS,
    STRICT,
    Decision,
    OptionalStep,
    StepFailed,
    Subject,
)
from untrace.recovery.record import Call
from untrace.result import Source
from untrace.stages import TimeIsOver

WAYS = ("api", "jaxpr", "lax")
NO_CODE = "this is (no code"


def recovered(name: str, way: str) -> Source:
    case = CASES[name]
    options = {**case.options}
    if way != "api":
        options = {
            k: v for k, v in options.items() if k not in ("annotate", "symbolic")
        }
    if way == "jaxpr":
        jaxpr = jax.make_jaxpr(case.function)(*case.args)
        return untrace.source(jaxpr, level="api", **options)
    return untrace.source(case.function, level=way, **options)(*case.args)


@functools.cache
def takers(way: str) -> Mapping[str, list[str]]:
    """List the programs that take each step in one way."""
    found: dict[str, list[str]] = {name: [] for name in STEPS}
    for case in CASES:
        with pytest.MonkeyPatch.context() as patch:
            taken = _watched(patch)
            assert recovered(case, way).report.is_verified
        for name in taken:
            found[name].append(case)
    return found


def _watched(patch: pytest.MonkeyPatch) -> set[str]:
    taken: set[str] = set()

    def watch(step: OptionalStep[..., Any]) -> None:
        function = step.function

        def watched(*args: Any, **kwargs: Any) -> Any:
            taken.add(step.name)
            return function(*args, **kwargs)

        patch.setattr(step, "function", watched)

    for step in STEPS.values():
        watch(step)
    return taken


# ---- faults ------------------------------------------------------------------------


def raises(step: OptionalStep[..., Any] | None) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("injected")

    return function


def nothing(step: OptionalStep[..., Any]) -> Any:
    """Whatever it does, and a result of the wrong type."""

    def function(*args: Any, **kwargs: Any) -> Any:
        done(*args, **kwargs)

    done = step.function
    return function


def garbage(step: OptionalStep[..., Any]) -> Any:
    """Whatever it does, and text that is no code."""

    def function(*args: Any, **kwargs: Any) -> Any:
        made = done(*args, **kwargs)
        for draft in [arg for arg in args if isinstance(arg, Draft)]:
            draft.statements.append(Statement(None, text_term(NO_CODE), is_effect=True))
        for written in functions_in(args):
            written.lines = [NO_CODE, *written.lines]
        return spoiled(made)

    done = step.function
    return function


def spoiled(made: Any) -> Any:
    if isinstance(made, str):
        return NO_CODE
    if isinstance(made, bool):
        return not made
    if isinstance(made, (list, tuple)):
        return type(made)(map(spoiled, made))
    if isinstance(made, dict):
        return {key: spoiled(value) for key, value in made.items()}
    if isinstance(made, set):
        return {*made, NO_CODE}
    if isinstance(made, Term):
        return text_term(NO_CODE)
    if isinstance(made, Call):
        return replace(made, args=())
    if isinstance(made, Block):
        return replace(made, equations=made.equations[:-1])
    return made


def wrong(step: OptionalStep[..., Any]) -> Any:
    """Another program, whose text is fine."""

    def function(*args: Any, **kwargs: Any) -> Any:
        made = done(*args, **kwargs)
        for draft in [arg for arg in args if isinstance(arg, Draft)]:
            for statement in draft.statements:
                statement.term.parts = [other(p) for p in statement.term.parts]
        for written in functions_in(args):
            written.lines = other(written.lines)
        return other(made)

    done = step.function
    return function


def other(made: Any) -> Any:
    if isinstance(made, str):
        return made.replace("sin", "cos").replace("2", "3")
    if isinstance(made, list):
        return list(map(other, made))
    if isinstance(made, Term):
        return Term([other(part) for part in made.parts])
    if isinstance(made, Call):
        return replace(made, args=made.args[::-1])
    return made


def functions_in(args: Any) -> Iterator[Function]:
    for arg in args:
        if isinstance(arg, Function):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from functions_in(arg)


@pytest.mark.parametrize("fault", [raises, nothing, garbage, wrong])
@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_fault_in_a_step_harms_nothing_else(name, fault, monkeypatch):
    monkeypatch.delenv(STRICT)
    step = STEPS[name]
    for way in WAYS:
        for case in takers(way)[name][:1]:
            with monkeypatch.context() as patch:
                patch.setattr(step, "function", fault(step))
                made = recovered(case, way)
            assert made.report.is_verified, str(made)
            if fault is raises:
                noted = [
                    n for n in made.report.notes if "it raised ValueError: inj" in n
                ]
                assert noted and all(f"`{name}`" in note for note in noted)


def test_every_step_is_taken_by_some_program():
    taken = {name for way in WAYS for name, cases in takers(way).items() if cases}
    assert taken == STEPS.keys()


def test_steps_have_names_of_their_own():
    modules = [m for name, m in sys.modules.items() if name.startswith("untrace.")]
    steps = [v for m in modules for v in vars(m).values() if type(v) is OptionalStep]
    assert all(STEPS[step.name] is step for step in steps)


@pytest.mark.parametrize("fault", [raises, garbage])
@pytest.mark.parametrize("name", ["folded", "format_source", "source_names"])
def test_a_fault_in_a_step_of_an_anonymous_file(name, fault, monkeypatch):
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(STEPS[name], "function", fault(STEPS[name]))
    jaxpr = jax.make_jaxpr(CASES["branches"].function)(*CASES["branches"].args)
    made = untrace.source(jaxpr, level="api", anonymous=True)
    assert made.report.is_verified, str(made)
    assert NOTE + "." in made.report.notes


def test_what_cannot_be_proved_with_a_step_names_it_and_no_other(monkeypatch):
    monkeypatch.delenv(STRICT)
    for name, way in [("folded", "jaxpr"), ("kept_whole", "lax"), ("fold", "api")]:
        with monkeypatch.context() as patch:
            patch.setattr(STEPS[name], "function", garbage(STEPS[name]))
            made = recovered("many", way)
        notes = [note for note in made.report.notes if "without a step" in note]
        assert len(notes) == 1 and f"`{name}`" in notes[0], str(made)


def first(x):
    return jnp.sin(x) * 2 + 1


def second(x):
    return jnp.cos(x) * 3 + 1


def both(x):
    return first(x) + second(x)


def only_for(subject: str, fault: Any) -> Any:
    """A fault in a step when it is taken for one thing."""

    def make(step: OptionalStep[..., Any]) -> Any:
        done, faulty = step.function, fault(step)

        def function(*args: Any, **kwargs: Any) -> Any:
            is_it = isinstance(args[0], Subject) and args[0].subject == subject
            return (faulty if is_it else done)(*args, **kwargs)

        return function

    return make


@pytest.mark.parametrize("fault", [raises, garbage])
def test_a_step_is_left_out_for_that_alone_for_which_it_is_to_blame(fault, monkeypatch):
    monkeypatch.delenv(STRICT)
    whole = untrace.source(both)(X)
    step = STEPS["fold"]
    monkeypatch.setattr(step, "function", only_for("second", fault)(step))
    made = untrace.source(both)(X)
    assert made.report.is_verified
    noted = [note for note in made.report.notes if NOTE in note]
    assert len(noted) == 1 and "`fold` (second);" in noted[0], noted
    assert "return jnp.sin(x) * 2 + 1" in str(made)
    assert "return jnp.cos(x) * 3 + 1" in str(whole)
    assert "return jnp.cos(x) * 3 + 1" not in str(made)


def test_a_decision_can_be_refused_by_its_number():
    whole = untrace.source(both)(X)
    number = whole.decisions.index(Decision("fold", "first")) + 1
    made = untrace.source(both, refuse=[number])(X)
    assert made.report.strength == "identical"
    assert made.decisions == whole.decisions
    assert "`fold` (first); it was refused." in str(made.report.notes)
    assert "return jnp.cos(x) * 3 + 1" in str(made)
    assert "return jnp.sin(x) * 2 + 1" not in str(made)


@pytest.mark.parametrize("name", ["many", "layers", "library", "branches"])
def test_every_decision_can_be_refused(name):
    taken = recovered(name, "api").decisions
    assert len(set(taken)) == len(taken)
    case = CASES[name]
    for number in range(1, len(taken) + 1, 5):
        options = {**case.options, "refuse": [number]}
        made = untrace.source(case.function, **options)(*case.args)
        assert made.report.is_verified, (taken[number - 1], str(made.report))


def test_only_steps_that_were_called_are_tried_one_by_one(monkeypatch):
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(optional, "STEPS", {})

    def step(number: int) -> OptionalStep[[str], str]:
        def add(text: str) -> str:
            return text + "?" * (number == 3)

        add.__qualname__ = f"step {number}"
        return OptionalStep(add, optional.unchanged, is_blamed=True)

    steps = [step(number) for number in range(1000)]
    made: list[str] = []

    def make() -> str:
        text = "text"
        for number in (1, 3, 500, 700):
            text = steps[number](text)
        made.append(text)
        return text

    def write() -> tuple[str, tuple[str, ...]]:
        text = optional.without_spoilers(make, lambda text: "?" not in text)
        return text, optional.left_out_notes()

    text, notes = optional.writing(write)
    assert text == "text" and len(made) <= 6
    assert len(notes) == 1 and "`step 3`" in notes[0]


def test_steps_to_blame_are_looked_for_until_the_time_is_over(monkeypatch):
    """The last text that was good stays."""
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(optional, "STEPS", {})

    def step(number: int) -> OptionalStep[[str], str]:
        def add(text: str) -> str:
            return f"{text}{number}" + "?" * (number == 3)

        add.__qualname__ = f"step {number}"
        return OptionalStep(add, optional.unchanged, is_blamed=True)

    steps = [step(number) for number in range(8)]
    made: list[str] = []

    def make() -> str:
        if len(made) == 3:
            raise TimeIsOver
        made.append(functools.reduce(lambda text, add: add(text), steps, ""))
        return made[-1]

    text = optional.writing(
        lambda: optional.without_spoilers(make, lambda text: "?" not in text)
    )
    assert made == ["0123?4567", "", "4567"] and text == "4567"


def test_many_steps_of_one_reason_are_one_note():
    def write() -> tuple[str, ...]:
        file = optional._file.get()
        assert file is not None
        failed = [Decision(f"step {number}") for number in range(9)]
        file.left_out |= dict.fromkeys(failed, "they failed")
        file.left_out[Decision("other")] = "it raised"
        return optional.left_out_notes()

    assert optional.writing(write) == (
        "Written without steps that make text better: `step 0`, `step 1`, `step 2` and "
        "6 more; they failed.",
        "Written without a step that makes text better: `other`; it raised.",
    )


@pytest.mark.parametrize("fault", [raises, garbage])
@pytest.mark.parametrize("way", WAYS)
def test_steps_that_fail_raise_in_the_tests(way, fault, monkeypatch):
    step = STEPS["fold" if way == "api" else "kept_whole"]
    monkeypatch.setattr(step, "function", fault(step))
    with pytest.raises(StepFailed, match=step.name):
        recovered("many", way)


# ---- what is no step ---------------------------------------------------------------


def functions_of(module: Any) -> list[str]:
    """List the functions of ours that a module imports, and are no steps."""
    return sorted(
        name
        for name, value in vars(module).items()
        if callable(value)
        and not isinstance(value, (type, OptionalStep))
        and getattr(value, "__module__", "").startswith("untrace")
        and value.__module__ not in (module.__name__, "untrace.optional")
    )


REQUIRED = {
    "accessors": "arguments are taken apart",
    "ambient_managers": "the context that the program was traced in",
    "construct": "results and examples are put together",
    "enums": "keys of dicts are written",
    "expect": "progress is told",
    "example_lines": "a file has example inputs",
    "from_jaxpr": "the program is read",
    "holds_text": "`jax.jit` does not take every result",
    "identifier": "a program has a name",
    "name_dimensions": "shapes may be symbolic",
    "replaced_key": "classes that cannot be imported have stand-ins",
    "replaced_nodes": "classes that cannot be imported have stand-ins",
    "tracing_context": "the context that the program was traced in",
}
"""Functions that no file is written without, at any level, and what for."""


def test_what_is_no_step_at_level_lax_is_required():
    assert set(functions_of(lift)) == REQUIRED.keys()


@pytest.mark.parametrize("name", functions_of(listing))
def test_a_fault_where_calls_are_written_leaves_the_equations(name, monkeypatch):
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(listing, name, raises(None))
    for case in ("layers", "library"):
        made = recovered(case, "api")
        assert made.report.is_verified, str(made)
        assert "ValueError: injected" in " ".join(made.report.notes)


def test_a_fault_in_the_idioms_is_named_at_level_lax(monkeypatch):
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(idiomatic, "without_jit", raises(None))
    made = untrace.source(jax.make_jaxpr(jnp.sin)(X), level="api", expand="jit")
    assert made.report.is_verified
    note = 'Written at level "lax", since the calls could not be proved: a fault of '
    found = [one for one in made.report.notes if one.startswith(note)]
    assert len(found) == 1 and "ValueError: injected" in found[0]


def test_a_fault_in_a_rule_leaves_the_primitives(monkeypatch):
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(Frame, "_by_rule", raises(None))
    made = recovered("many", "lax")
    assert made.report.is_verified
    assert "ValueError: injected" in " ".join(made.report.notes)


# ---- long tuples -------------------------------------------------------------------


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_long_tuple_of_which_nothing_is_read(level):
    made = untrace.source(unread, level=level)(X)
    assert made.report.is_verified, str(made)


def test_a_branch_that_does_nothing_with_many_operands():
    values = [jnp.asarray(X) * i for i in range(14)]

    def nothing(*args: Any) -> None:
        pass

    def told(*args: Any) -> None:
        jax.debug.callback(print_nothing, args[0])

    def program(x: Any) -> Any:
        jax.lax.cond(x[0] > 0, told, nothing, *[v * x for v in values])
        return x

    made = untrace.source(program, level="lax")(X)
    assert made.report.strength == "identical", str(made)
    (note,) = made.report.notes  # of the function that is called
    assert note.startswith("It imports ")


def test_text_that_took_long_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "MAX_SECONDS", 0.0)
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    text = optional.writing(lambda: optional.without_spoilers(make, lambda _: False))
    assert text == 1 and len(made) == 1
