"""Say which options changed nothing: the text is what it would be without them.

An option that is passed over in silence looks like one that does not work. What is said
is a note of the report, which stands in the header, and on standard error.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace

from untrace.anonymity import PUBLIC
from untrace.options import Options
from untrace.parsing import parse
from untrace.result import Source

IDLE = " changes nothing: "
"""What every such note contains, after the option."""


def idle_notes(source: Source) -> tuple[str, ...]:
    """The notes of a report that say that an option changed nothing."""
    return tuple([note for note in source.report.notes if IDLE in note])


def with_idle_notes(source: Source, options: Options, is_recorded: bool) -> Source:
    """Note which of the options that were asked for changed nothing.

    `is_recorded` says whether the calls of the program were recorded, which say
    themselves what is not among them.
    """
    idle = [*_idle(source, options), *([] if is_recorded else _unexpanded(options))]
    found = [f"{option}{IDLE}{why}." for option, why in idle]
    if not found:
        return source
    notes = (*source.report.notes, *found)
    return replace(source, report=replace(source.report, notes=notes), _text=[])


def _idle(source: Source, options: Options) -> Iterator[tuple[str, str]]:
    """Yield options, and why each changed nothing."""
    tree = parse(source.module.body) if _is_any(options) else ast.Module([], [])
    nodes = list(ast.walk(tree))
    if options.scopes and not _has_attribute(nodes, "named_scope"):
        yield "scopes=True", "the program enters no `jax.named_scope`"
    if options.annotate != "none" and not _imports(nodes, options.annotate):
        why = "no function that was recorded has arrays among its parameters"
        yield f'annotate="{options.annotate}"', why
    if options.keep_types and not _imports_foreign(nodes):
        why = "it holds nothing of the user's or a library's that a file can import"
        yield "keep_types=True", why
    if options.comments == "user" and source.captured.recording is None:
        why = "comments stand beside calls, and the text is written from equations"
        yield 'comments="user"', why
    if options.reroll in ("for", "scan"):
        why = "no statements repeat"
        if options.reroll == "scan":
            why += " over parameters that can be stacked"
        if source.captured.recording is None:
            why = "loops are found among calls, and the text is written from equations"
        if not _is_rerolled(source, nodes):
            yield f'reroll="{options.reroll}"', why


def _unexpanded(options: Options) -> Iterator[tuple[str, str]]:
    """Yield what cannot be looked into, since no call was recorded."""
    for name in sorted(options.expand):
        if options.level == "lax":
            yield f'expand="{name}"', 'level "lax" writes the equations of all calls'
        elif name != "jit":
            why = "a traced program holds no calls, only what JAX made of them"
            yield f'expand="{name}"', why


def _is_any(options: Options) -> bool:
    return (
        options.scopes
        or options.keep_types
        or options.annotate != "none"
        or options.reroll in ("for", "scan")
    )


def _is_rerolled(source: Source, nodes: list[ast.AST]) -> bool:
    if source.options.reroll == "for":
        kinds = (ast.For, ast.comprehension)
        return any(isinstance(node, kinds) for node in nodes)
    if source.report.strength == "unverified":
        return _has_attribute(nodes, "scan")
    return source.report.strength == "rerolled"  # what has other equations


def _has_attribute(nodes: list[ast.AST], name: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in nodes)


def _imports(nodes: list[ast.AST], module: str) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == module for node in nodes
    )


def _imports_foreign(nodes: list[ast.AST]) -> bool:
    """Whether something is imported that is neither of JAX nor of Python."""
    known = {*PUBLIC, *sys.stdlib_module_names}
    found = [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
    found += [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    return any(module.partition(".")[0] not in known for module in found)
