"""The public function `reduce`: a failing program, a predicate, and out comes a repro."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from untrace import jaxapi
from untrace.capture.capture import capture
from untrace.capture.captured import Captured
from untrace.capture.jaxprs import capture_jaxpr
from untrace.capture.user_code import user_code
from untrace.errors import KeepError
from untrace.extension import load_entry_points
from untrace.readers.formats import read
from untrace.reduction.applying import apply, program_from
from untrace.reduction.circumstances import with_needed
from untrace.reduction.controls import shown_control, with_control
from untrace.reduction.driver import (
    UNCONFIRMED,
    Pinned,
    Plan,
    controlled,
    hurry,
    pin,
    progress_facts,
    search_and_confirm,
)
from untrace.reduction.edits import Edits
from untrace.reduction.explaining import Said, explanation, is_of_derivative
from untrace.reduction.journal import Journal
from untrace.reduction.keeping import Check, Keep, parse_keep
from untrace.reduction.loading import drawn_in, input_names, load_program
from untrace.reduction.losses import Loss, fails_itself, pinned_loss
from untrace.reduction.program import Program
from untrace.reduction.reproducer import Story, reproducer, unreduced
from untrace.reduction.result import Reduction
from untrace.reduction.search import Event, Limits, Search, Step
from untrace.reduction.sizes import Size, measure
from untrace.reduction.trials import Judge, Verdict
from untrace.reduction.values import made_up
from untrace.result import Source
from untrace.torch_modules import as_function, is_torch_module, refuse_static

MAX_NAMED = 4
"""Inputs that a warning names."""

OF_DERIVATIVE = (
    "The first bad value is made by an equation of a derivative. Given the loss itself, "
    "under='grad' leaves the line of the loss: --keep \"nan(under='grad')\"."
)
CONTROLS = ("auto", "none")


def reduce(
    function: Any,
    *,
    keep: Keep | str | Callable[..., Any] | None = None,
    jobs: int = 1,
    confirm: int = 1,
    executor: Executor | None = None,
    journal: str | os.PathLike[str] | None = None,
    anonymous: bool = False,
    max_runs: int | None = None,
    max_seconds: float | None = None,
    control: str = "auto",
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    notify: Event | None = None,
) -> Any:
    """Shrink a failing program to the few equations that fail.

    The program is traced, never run, in this process; candidates run in workers.

    Args:
      function: A callable, called as `reduce(f, keep=...)(*args, **kwargs)` with the
        inputs that make it fail; a `torch.nn.Module`, called with tensors of torch; or
        a jaxpr, a printed one (its text, or the path of a file in which it stands) or a
        `jax.stages.Traced`, called with flat inputs, or with none for made-up ones. A
        `Source`, the path of a saved file, and the folder of a reduction that was
        interrupted (to go on with it) carry their inputs: the result comes at once.
      keep: What to keep: a predicate of `untrace.keep`, such as
        `untrace.keep.nan() & untrace.keep.contains("log")`, its text, or a function of
        the outputs (a list of NumPy arrays). Not needed for the folder of a reduction.
      jobs: Candidates that run at once. The result does not depend on it.
      confirm: Runs of the original, at first. For failures that do not always show,
        candidates are run as often as it takes to miss none at the rate that was seen.
      executor: Any `concurrent.futures.Executor` that can import untrace, to run
        candidates on other machines.
      journal: Folder that always holds the best program so far. By default a temporary
        one, which is deleted at the end.
      anonymous: Write no names, paths or comments of the original.
      max_runs: Stop with the best after this many runs.
      max_seconds: Stop with the best after this many seconds of wall time.
      control: "auto": where the failure is one of values (NaN, infinities, differences,
        hangs), other inputs are looked for with which the program does not fail, and a
        candidate has to be fine with those too, so that it still fails because of its
        inputs. "none": it need not.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.
      notify: Called with the kind of every event and a dictionary of facts.

    Returns:
      For a callable, a module, a jaxpr or a traced computation, a callable that takes
      the inputs and returns a `Reduction`; otherwise the `Reduction`.

    Raises:
      KeepError: If the failure does not show in a fresh process, or every program
        shows it, or `keep` cannot be read.
      CaptureError: If the inputs cannot be traced.
      LoadError: If a file or folder cannot be read.
      SaveError: If the journal cannot be written.

    >>> import jax.numpy as jnp
    >>> import untrace
    >>> shrink = reduce(lambda x: jnp.log(x - x) * 2, keep=untrace.keep.inf())
    >>> shrink(jnp.ones(3)).n_equations
    1
    """
    load_entry_points()
    if control not in CONTROLS:
        raise KeepError(f"control must be 'auto' or 'none', not {control!r}")
    limits = Limits(max_runs, max_seconds)
    plan = Plan(jobs, confirm, executor, limits, notify, control)
    function = read(function)
    if isinstance(function, (str, os.PathLike)):
        path = Path(function)
        if path.is_dir():
            return _resumed(path, plan, anonymous)
        program, drawn = load_program(path), drawn_in(path)
        return _reduced(
            program, _read(keep), plan, journal, anonymous, path.name, drawn
        )
    keep = _read(keep)
    if isinstance(function, Source):
        captured = function.captured
        program, drawn = _program(captured, captured.values)
        return _reduced(program, keep, plan, journal, anonymous, captured.origin, drawn)
    if jaxapi.is_jaxpr(function) or jaxapi.is_traced(function):
        closed = function.jaxpr if jaxapi.is_traced(function) else function

        def with_inputs(*inputs: Any) -> Reduction:
            captured = capture_jaxpr(closed)
            program, drawn = _program(captured, inputs or captured.values)
            return _reduced(program, keep, plan, journal, anonymous, "a jaxpr", drawn)

        return with_inputs

    is_torch = is_torch_module(function)
    if is_torch:
        refuse_static(static_argnums, static_argnames)

    def with_arguments(*args: Any, **kwargs: Any) -> Reduction:
        program, given = function, (args, kwargs)
        if is_torch:
            program, arrays = as_function(function, args, kwargs)
            given = arrays, {}
        static = static_argnums, static_argnames
        captured = _captured(program, *given, *static)

        def loss() -> Program:
            found = capture(jaxapi.loss_of(function), args, kwargs, *static)
            return _program(found, found.values)[0]

        whole, drawn = _program(captured, captured.values)
        return _reduced(
            whole, keep, plan, journal, anonymous, captured.origin, drawn, loss
        )

    return with_arguments


def _read(keep: Keep | str | Callable[..., Any] | None) -> Keep:
    if keep is None:
        raise KeepError(
            "say what to keep: keep=untrace.keep.crashes(), raises(), nan(), ..."
        )
    if isinstance(keep, str):
        return parse_keep(keep)
    return keep if isinstance(keep, Keep) else Check(keep)


def _captured(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> Captured:
    with user_code(
        "untrace.reduce needs a function that JAX can trace. If tracing is what fails "
        "under a transformation, pass the function without it and say "
        "keep=untrace.keep.raises(..., under='grad')."
    ):
        return capture(function, args, kwargs, static_argnums, static_argnames)


def _program(captured: Captured, values: Sequence[Any]) -> tuple[Program, str]:
    """Return the program, and a sentence about inputs that had to be drawn."""
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    held = [made_up(a) if v is None else v for v, a in zip(values, avals, strict=True)]
    names = input_names(captured)
    program = program_from(captured.jaxpr, held, names, captured.name)
    missing = [name or "x" for name, value in zip(names, values) if value is None]
    if not missing:
        return program, ""
    shown = ", ".join(missing[:MAX_NAMED]) + (
        ", ..." if len(missing) > MAX_NAMED else ""
    )
    return program, (
        f"The inputs were drawn ({shown}): no values were given. A failure that depends "
        "on values may need the real ones."
    )


# ---- from the start, or from a journal ------------------------------------------------


def _reduced(
    program: Program,
    keep: Keep,
    plan: Plan,
    folder: str | os.PathLike[str] | None,
    is_anonymous: bool,
    origin: str,
    drawn: str = "",
    loss: Callable[[], Program] | None = None,
) -> Reduction:
    with plan.interrupts:
        return _begun(program, keep, plan, folder, is_anonymous, origin, drawn, loss)


def _begun(
    program: Program,
    keep: Keep,
    plan: Plan,
    folder: str | os.PathLike[str] | None,
    is_anonymous: bool,
    origin: str,
    drawn: str,
    loss: Callable[[], Program] | None,
) -> Reduction:
    program, keep = _of_wanted_output(program, keep)
    try:
        with plan.interrupts.raised():
            plan.begin("run the original")
            pinned = pin(program, keep, plan)
    except KeepError as error:
        raise KeepError(f"{error}\n{drawn}" if drawn else str(error)) from error
    start = measure(program).equations
    plan.tell("found", _failure(pinned))
    of_loss: Loss | None = None
    is_forward, control = False, ""
    with contextlib.suppress(KeyboardInterrupt), plan.interrupts.raised():
        plan.begin("look whether the loss fails")
        of_loss = pinned_loss(keep, pinned.keep, loss, plan)
        if of_loss is not None:
            program, pinned = of_loss.program, of_loss.pinned
        else:
            is_forward = fails_itself(pinned.keep, loss, plan)
        plan.begin("look for inputs with which it is fine")
        program, control = controlled(program, pinned, plan)
    is_temporary = folder is None
    place = (
        Path(tempfile.mkdtemp(prefix="untrace-")) if folder is None else Path(folder)
    )
    journal = Journal(place)
    facts = {
        "keep": str(pinned.keep),
        "attempts": pinned.attempts,
        "rate": pinned.rate,
        "repeats": pinned.repeats,
        "start": start,
        "origin": origin,
        "name": program.name,
        "control": control,
        "drawn": drawn,
        "loss": of_loss.said if of_loss else "",
        "is_forward": is_forward,
        "is_controlled": program.controls is not None,
    }
    journal.start(facts, program)
    _tell(plan, "pinned", journal, pinned)
    searched = search_and_confirm(program, pinned, plan, journal)
    found = _finished(searched, pinned, start, origin, is_anonymous, journal, plan)
    if is_temporary:
        shutil.rmtree(place, ignore_errors=True)
    return found


def _of_wanted_output(program: Program, keep: Keep) -> tuple[Program, Keep]:
    """Leave one output, if the predicate is about it alone; its number then changes.

    Raises:
      KeepError: If there is no such output.
    """
    wanted = keep.wanted_output()
    if wanted is None:
        return program, keep
    outputs = program.block.outputs
    if wanted >= len(outputs):
        raise KeepError(
            f"there is no output {wanted}: the program has {len(outputs)}, counted from 0"
        )
    found = apply(program, Edits(outputs=(outputs[wanted],)))
    return (program, keep) if found is None else (found, keep.for_only_output())


def _resumed(folder: Path, plan: Plan, is_anonymous: bool) -> Reduction:
    with plan.interrupts:
        return _gone_on(folder, plan, is_anonymous)


def _gone_on(folder: Path, plan: Plan, is_anonymous: bool) -> Reduction:
    journal = Journal.open(folder)
    facts = journal.facts
    keep = parse_keep(facts["keep"])
    program = load_program(journal.best, facts["name"])
    repeats = facts.get("repeats", 1)
    judge = Judge(keep, plan.executor, facts["attempts"], repeats)
    if facts.get("is_controlled"):  # the journal does not hold what inputs were then
        program, _ = with_control(program, keep, judge)
    search = Search(program, judge, plan.jobs, plan.limits)
    _restore(search, journal)
    pinned = Pinned(keep, facts["attempts"], facts["rate"], repeats)
    _tell(plan, "pinned", journal, pinned)
    searched = search_and_confirm(program, pinned, plan, journal, search)
    return _finished(
        searched, pinned, facts["start"], facts["origin"], is_anonymous, journal, plan
    )


def _restore(search: Search, journal: Journal) -> None:
    """Take over what an interrupted reduction knew."""
    facts, stats = journal.facts, search.stats
    search.verdicts.update(journal.verdicts())
    for name in ("runs", "accepted", "rejected", "duplicates", "untraceable"):
        setattr(stats, name, facts.get(name, 0))
    stats.recordings, stats.seconds = (
        facts.get("recordings", 0),
        facts.get("seconds", 0.0),
    )
    stats.other_failures.update(facts.get("others", {}))
    search.history += [
        Step(runs, seconds, name, Size(*size))
        for runs, seconds, name, size in facts.get("history", ())
    ]


def _failure(pinned: Pinned) -> dict[str, Any]:
    told = pinned.keep.told(pinned.outcomes)
    return {"keep": str(pinned.keep), "description": told}


def _tell(plan: Plan, kind: str, journal: Journal, pinned: Pinned) -> None:
    if plan.notify is not None:
        facts = {
            **_failure(pinned),
            "start": journal.facts["start"],
            "folder": str(journal.folder),
            "rate": pinned.rate,
            "control": journal.facts.get("control", ""),
            "drawn": journal.facts.get("drawn", ""),
            "loss": journal.facts.get("loss", ""),
        }
        plan.notify(kind, facts)


def _finished(
    searched: tuple[Search, Program, Verdict, str],
    pinned: Pinned,
    start: int,
    origin: str,
    is_anonymous: bool,
    journal: Journal,
    plan: Plan,
) -> Reduction:
    search, program, verdict, why = searched
    stats = search.stats
    shown = "a program" if is_anonymous else origin

    def story(keep: Keep) -> Story:
        return Story(
            shown,
            start,
            shown_control(program, is_anonymous),
            "" if is_anonymous else keep.told(verdict.outcomes),
            () if is_anonymous else explained,
            pinned.rate,
        )

    keep, source = pinned.keep, None
    explained: tuple[Said, ...] = ()
    if not search.is_hurried:
        try:
            with plan.interrupts.raised(after=1):
                search.enter("say why it fails")
                if not is_anonymous:
                    explained = tuple(explanation(program, keep, search.judge))
                search.enter("find the settings that it needs")
                keep = with_needed(program, keep, search.judge)
                search.enter("write it")
                # The same program in other words is not to be refused for a hair.
                without = search.judge.keep.without_margin()
                judge = replace(search.judge, keep=without, is_brief=False)
                source, program = reproducer(
                    program, keep, story(keep), judge, is_anonymous
                )
        except KeyboardInterrupt:
            hurry(search)
    if source is None:
        search.note(UNCONFIRMED)
        if not is_anonymous:
            explained = tuple(explanation(program, keep, None))
        source = unreduced(program, keep, story(keep), is_anonymous)
    journal.keep(program, progress_facts(search))
    journal.set_aside(search.others)
    trouble = journal.trouble
    unfit = [
        f"Not the program's failure ({times} times): {why}"
        for why, times in search.unfit.most_common(3)
    ]
    if at_once := search.at_once():
        search.note(at_once)
    is_forward = journal.facts.get("is_forward", False)
    if not is_forward and is_of_derivative(program, keep.blamed):
        search.note(OF_DERIVATIVE)
    drawn = journal.facts.get("drawn", "")
    unfit = [*([drawn] if drawn else []), *unfit]
    notes = [f"The journal could not be written: {trouble}"] if trouble else []
    return Reduction(
        source,
        program,
        keep,
        stats,
        tuple(search.history),
        start,
        search.others,
        why,
        (*search.judge.notes, *unfit, *notes),
        journal.facts.get("control", ""),
    )
