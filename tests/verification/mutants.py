"""Mutate generated files, and check them as `untrace verify` does.

`python -m tests.verification.mutants --count 20000` prints a table by kind of mutation.
Every mutant that is accepted is proved to be the same function (`portrait`), or is
counted as different, with the first aspect that differs; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import functools
import io
import logging
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

import untrace
from benchmarks.readability import corpus
from tests.verification.portrait import INTERFACE, example_leaves, portrait
from tests.verification.programs import PROGRAMS
from tests.verification.saved_programs import SAVED
from tests.verification.text_mutation import TextEdit, sample_edits
from untrace.errors import LoadError
from untrace.saved import Verdict, main_name, verify_file
from untrace.verification.retrace import execute, restored_settings

TIME_LIMIT_S = 20
LEVELS = ("lax", "api")
READABLE = (
    "attention",
    "clip_gradient",
    "deep_mlp",
    "plain_momentum",
    "stable_functions",
)
LABELS = (*PROGRAMS, *SAVED, *READABLE)
COLUMNS = (
    "syntax",
    "raises",
    "difference",
    "same text",
    "same",
    "slow",
    "header",
    "interface",
    "DIFFERENT",
)


Original = tuple[dict[str, str], list[Any]]
"""The portrait of a file that nobody edited, and the inputs on which it was made."""


class TooLong(BaseException):
    """A mutant takes too long. No `Exception`: what runs it may catch those."""


@dataclass(frozen=True)
class Saved:
    """A saved file in a folder of its own.

    Attributes:
      label: Program and level.
      path: The file; its sidecar lies beside it.
      text: What the file holds, unchanged.
      name: Of its function.
    """

    label: str
    path: Path
    text: str
    name: str


@dataclass(frozen=True)
class Judged:
    """What became of a mutant, and the aspect in which an accepted one differs."""

    label: str
    kind: str
    outcome: str
    aspect: str = ""
    shown: str = ""


def save(label: str, level: str, folder: Path) -> Saved:
    """Write the file of a program at a level, and check it unchanged."""
    function, args = _program(label)
    source = untrace.source(function, level=level)(*args)
    place = folder / f"{label}-{level}"
    place.mkdir()
    path = source.save(place / "mutant.py")
    assert verify_file(path).is_verified, f"{label} does not verify at {level}"
    return Saved(f"{label} {level}", path, path.read_text(), source.module.name)


def _program(label: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if label not in READABLE:
        return {**PROGRAMS, **SAVED}[label]
    program = corpus.load(label)
    return program.function, program.args


def judge_all(saved: Saved, edits: list[TextEdit]) -> Iterator[Judged]:
    """Check mutants of a file."""
    original = functools.cache(lambda: _original(saved))
    for edit in edits:
        text = edit.apply(saved.text)
        outcome, aspect = _judge(saved, text, original)
        yield Judged(saved.label, edit.kind, outcome, aspect, edit.show(saved.text))


def judge_sidecar(saved: Saved, n_bytes: int) -> Iterator[Judged]:
    """Check a file with one byte of its sidecar changed, removed or added."""
    path = saved.path.with_suffix(".safetensors")
    if not path.exists():
        return
    saved.path.write_text(saved.text)
    raw = path.read_bytes()
    step = max(1, len(raw) // n_bytes)
    for i in range(0, len(raw), step):
        bit = bytes([raw[i] ^ (1 << (i % 8))])
        for kind, new in {"changed": bit, "removed": b"", "added": bit * 2}.items():
            path.write_bytes(raw[:i] + new + raw[i + 1 :])
            outcome, _ = _judge(saved, saved.text, lambda: ({}, []))
            outcome = "DIFFERENT" if outcome == "same text" else outcome
            shown = f"byte {i} of the sidecar {kind}"
            yield Judged(saved.label, f"sidecar: {kind}", outcome, "sidecar", shown)
    path.write_bytes(raw)


def _judge(
    saved: Saved, text: str, original: Callable[[], Original]
) -> tuple[str, str]:
    try:
        with time_limit(), _quiet():
            verdict = _verify(saved.path, text)
            if isinstance(verdict, str):
                return verdict, ""
            if not verdict.is_verified:
                return "difference", ""
            if _fingerprint(text) != _fingerprint(saved.text):
                return "DIFFERENT", "fingerprint"
            if _syntax(text) == _syntax(saved.text):
                return "same text", ""
            aspect = _first_difference(saved, text, original())
            return ("DIFFERENT", aspect) if aspect else ("same", "")
    except TooLong:
        return "slow", ""


def _verify(path: Path, text: str) -> Verdict | str:
    """Return the verdict, or how the file was refused."""
    path.write_text(text)
    try:
        return verify_file(path)
    except LoadError as error:
        is_text = "not valid Python" in str(error) or "no fingerprint" in str(error)
        return "syntax" if is_text else "raises"


def _fingerprint(text: str) -> list[str]:
    """List what the header says is verified: the name, and the digits, all of them."""
    header = ast.get_docstring(ast.parse(text)) or ""
    found = re.findall(
        r"Fingerprint\s+of\s+`(\w+)`\s+on.*:\s+([0-9a-f]+)$", header, re.M
    )
    return list(found[-1]) if found else []


def _syntax(text: str) -> str:
    """Return the syntax tree without docstrings: comments, layout and header are gone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [n for n in body if not _is_text(n)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _first_difference(saved: Saved, text: str, original: Original) -> str:
    expected, leaves = original
    actual = _portrait(saved, text, leaves)
    keys = [*expected, *actual]
    return next((key for key in keys if expected.get(key) != actual.get(key)), "")


def _original(saved: Saved) -> Original:
    with restored_settings():
        module = execute(saved.text, str(saved.path), str(saved.path))
        leaves = example_leaves(module, saved.name)
    return _portrait(saved, saved.text, leaves), leaves


def _portrait(saved: Saved, text: str, leaves: list[Any]) -> dict[str, str]:
    with restored_settings():
        module = execute(text, str(saved.path), str(saved.path))
        return portrait(module, main_name(text) or saved.name, leaves)


@contextlib.contextmanager
def time_limit() -> Generator[None]:
    """Raise `TooLong` in the block when it takes longer than a mutant may."""

    def stop(*_: Any) -> None:
        raise TooLong

    # Processor time: others may use the machine.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def judge_programs(
    labels: list[str], levels: list[str], count: int, seed: int
) -> Iterator[Judged]:
    """Judge mutants of programs at levels, as many of each as it takes."""
    pairs = [(label, level) for label in labels for level in levels]
    folder = Path(tempfile.mkdtemp())
    missing = count
    try:
        for i, (label, level) in enumerate(pairs):
            saved = save(label, level, folder)
            share = -(-missing // (len(pairs) - i))
            edits = sample_edits(saved.text, share, f"{seed} {saved.label}")
            for judged in judge_all(saved, edits):
                missing -= 1
                yield judged
            yield from judge_sidecar(saved, 60)
            jax.clear_caches()
    finally:
        shutil.rmtree(folder)


def column(judged: Judged) -> str:
    """Name the column of a mutant: those that no equation tells apart have their own."""
    if judged.outcome != "DIFFERENT":
        return judged.outcome
    if judged.aspect == "fingerprint":
        return "header"
    return "interface" if judged.aspect in INTERFACE else "DIFFERENT"


def table(results: list[Judged]) -> str:
    """Lay out a table in Markdown: kinds of mutation, and what became of them."""
    counts: dict[str, collections.Counter[str]] = {}
    for judged in results:
        for kind in (judged.kind, "all"):
            counts.setdefault(kind, collections.Counter())[column(judged)] += 1
    lines = [f"| mutation | made | {' | '.join(COLUMNS)} |"]
    lines.append(f"|---|---{'|---' * len(COLUMNS)}|")
    for kind in sorted(counts, key=lambda kind: (kind == "all", kind)):
        cells = [f"{counts[kind][head]:,}" for head in COLUMNS]
        lines.append(f"| {kind} | {counts[kind].total():,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Make mutants and print the table; exit 1 if one is accepted and different."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", choices=LEVELS, action="append")
    parser.add_argument("--only", default="", help="part of a program's name")
    parser.add_argument("--show", type=int, default=60)
    parser.add_argument(
        "--same", action="store_true", help="show what is the same, too"
    )
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    start = time.time()
    labels = [name for name in LABELS if options.only in name]
    results: list[Judged] = []
    levels = options.level or list(LEVELS)
    found = judge_programs(labels, levels, options.count, options.seed)
    # What was found until Ctrl-C is shown, too.
    with contextlib.suppress(KeyboardInterrupt):
        for judged in found:
            results.append(judged)
            if judged.outcome in ("DIFFERENT", "slow"):
                print("-", judged, file=sys.stderr, flush=True)
    print(f"jax {jax.__version__}, {len(labels)} programs, {time.time() - start:.0f} s")
    print(table(results))
    bad = [judged for judged in results if judged.outcome == "DIFFERENT"]
    for judged in results if options.same else bad[: options.show]:
        if judged.outcome in ("same", "slow", "DIFFERENT"):
            what = judged.aspect or judged.outcome
            print(f"- {judged.label}: {what}: {judged.shown}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
