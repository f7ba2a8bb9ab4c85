"""The file that the user gets: a small program that fails, and how it fails.

It is written as calls (level "api") where that keeps the failure, else as equations. Its
header says what fails, how that was pinned and on which versions; its main block shows
the failure.
"""

from __future__ import annotations

import ast
import importlib.util
import platform
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax

from untrace import jaxapi
from untrace._version import __version__
from untrace.anonymity import strings_left, untrace_anonymous
from untrace.errors import LiftingError, UnverifiedWarning
from untrace.optional import writing
from untrace.options import Options
from untrace.parsing import parse
from untrace.pipeline import untrace_captured
from untrace.printable import printable
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits
from untrace.reduction.explaining import Said
from untrace.reduction.inlining import with_own_functions
from untrace.reduction.keeping import Keep, scripts
from untrace.reduction.polishing import (
    drawn_values,
    look,
    public_call,
    shorter_call,
    with_public_calls,
)
from untrace.reduction.program import Program
from untrace.reduction.shortening import with_values_returned
from untrace.reduction.trials import Judge, Trial, job_for
from untrace.reduction.widening import idle_settings
from untrace.reduction.wording import counted
from untrace.reduction.writing import captured
from untrace.result import Source
from untrace.syntax.formatting import format_source

MAIN = 'if __name__ == "__main__":'
LEVELS = ("api", "lax")


@dataclass(frozen=True)
class Story:
    """What the header of a reproducer says.

    Attributes:
      origin: Where the program came from.
      before: Its equations.
      control: With which inputs it does not fail, as a sentence.
      told: What fails, with the message that was seen.
      explained: Sentences about the equation that fails.
      rate: In how many of its runs the original failed, as a part of 1.
    """

    origin: str
    before: int
    control: str = ""
    told: str = ""
    explained: tuple[Said, ...] = ()
    rate: float = 1.0

    def line(self) -> str:
        """Return the line that says what was reduced."""
        return (
            f"Reduced by untrace {__version__} from {counted(self.before, 'equation')} of "
            f"{_place(self.origin)}."
        )


def _place(origin: str) -> str:
    """Write "`f` from file.py:3" as "`f` (file.py:3)"."""
    name, _, place = origin.partition(" from ")
    return f"{name} ({place})" if place else origin


def reproducer(
    program: Program, keep: Keep, story: Story, judge: Judge, is_anonymous: bool = False
) -> tuple[Source, Program]:
    """Write the program at the highest level at which it still fails, and polish it.

    Returns:
      The file, and the program with the inputs that stand in the file. It has the same
      equations but where a public call stands for a primitive.
    """
    writer = _Writer(keep, story, judge, is_anonymous)
    idle = idle_settings(program)
    if idle:
        with jaxapi.default_settings(idle):
            plain = apply(program, Edits())
            source = None if plain is None else writer.best(plain)
            if plain and source and _still_fails(source, plain, judge):
                return writer.polished(source, plain)
    source = writer.best(program)
    return writer.polished(source, program)


@dataclass(frozen=True)
class _Writer:
    """Writes programs as files that show their failure."""

    keep: Keep
    story: Story
    judge: Judge
    is_anonymous: bool

    def best(self, program: Program) -> Source:
        """Write a program at the highest level at which it still fails."""
        best: Source | None = None
        for level in LEVELS:
            source = self.written(program, level)
            if source is None:
                continue
            best = source
            if _still_fails(best, program, self.judge):
                return best
        if best is None:
            raise LiftingError("the reduced program cannot be written")
        return best

    def written(
        self, program: Program, level: str, is_exact: bool = True
    ) -> Source | None:
        """Write a program at one level, with its own inputs or with others like them."""
        source = _written(program, level, self.is_anonymous, is_exact)
        if source is None:
            return None
        return _with_story(source, self.keep, self.story, program, self.is_anonymous)

    def polished(self, source: Source, program: Program) -> tuple[Source, Program]:
        """Try what makes the text better, as long as it still fails."""
        found = self._with_public_calls(source, program)
        while found is not None:
            source, program = found
            found = self._with_public_calls(source, program)
        if not look(source).sidecars:
            return source, program
        made = self.written(program, source.options.level, is_exact=False)
        if made is None or look(made).sidecars:
            return source, program
        values = drawn_values(made, program)
        if values is None:
            return source, program
        drawn = replace(program, values=values)
        is_kept = self.judge.judge_program(drawn)
        return (made, drawn) if is_kept else (source, program)

    def _with_public_calls(
        self, source: Source, program: Program
    ) -> tuple[Source, Program] | None:
        """Return a better text with public calls; None if there is none."""
        before = look(source)
        # What names equations asks for few of them, not for a short text.
        tables = [public_call] if before.binds else []
        tables += [] if self.keep.named(program) else [shorter_call]
        for other in with_public_calls(program, tables):
            made = None if other is None else self.written(other, source.options.level)
            if other is None or made is None or not look(made) < before:
                continue
            if _still_fails(made, other, self.judge):
                return made, other
        return None


def unreduced(
    program: Program, keep: Keep, story: Story, is_anonymous: bool = False
) -> Source:
    """Write a program as it is with its predicate at the end; nothing is run.

    Raises:
      LiftingError: If it cannot be written.
    """
    source = _written(program, "lax", is_anonymous)
    if source is None:
        raise LiftingError("the reduced program cannot be written")
    return _with_story(source, keep, story, program, is_anonymous)


# What cannot be proved is run all the same, and that decides.
_unverified = jaxapi.ThreadFilter("ignore", UnverifiedWarning)


def _written(
    program: Program, level: str, is_anonymous: bool, is_exact: bool = True
) -> Source | None:
    write = untrace_anonymous if is_anonymous else untrace_captured
    try:
        with _unverified.entered():
            described = replace(captured(program), is_exact=is_exact)
            return write(described, Options(level, quotes=not is_anonymous))
    except LiftingError:
        return None


def _with_story(
    source: Source, keep: Keep, story: Story, program: Program, is_anonymous: bool
) -> Source:
    """Give a file its own header, and a main block that shows the failure."""
    body, _, main = source.module.body.rpartition(MAIN)
    lines = keep.check_lines(source.module.name, program)
    if _has_odd_outputs(source, keep):
        lines = scripts.with_plain_outputs(lines)
    if not lines:
        return replace(source, title=_title(keep, story, source), _text=[])
    indent = "    "
    context = [line for line in main.splitlines() if line.startswith("    with ")]
    if context:
        lines = [context[0].strip(), *(f"    {line}" for line in lines)]
    imports = keep.check_imports()
    if not is_anonymous:
        body, needed = with_own_functions(body, _is_own)
        body = _with_imports(body, needed) if needed else body
    if not any(line.startswith("os.") for line in imports):
        imports = _used(imports, "\n".join([body, *lines]))
    body = _with_imports(body, imports)
    text = "\n".join([body + MAIN, *(indent + line for line in lines)])
    body = writing(lambda: format_source(with_values_returned(format_source(text))))
    module = replace(source.module, body=body.strip("\n") + "\n")
    source = replace(source, module=module)
    return replace(source, title=_title(keep, story, source), _text=[])


def _has_odd_outputs(source: Source, keep: Keep) -> bool:
    """Whether outputs are keys, or have derivatives without a type."""
    avals = source.captured.jaxpr.out_avals
    is_jvp = any(run.under == "jvp" for run in keep.runs)
    plain = (
        ("floating", "complex")
        if is_jvp
        else ("floating", "complex", "integer", "bool")
    )
    return any(
        jaxapi.is_key(a) or jaxapi.dtype_kind(a.dtype) not in plain for a in avals
    )


def _with_imports(body: str, imports: Sequence[str]) -> str:
    """Put imports among those at the top of a module, in the usual order.

    Settings of the environment stay before all others.
    """
    lines = body.split("\n")
    n_first = sum(not line.startswith(("import jax", "from ")) for line in imports)
    if any(line.startswith("os.") for line in imports):
        return "\n".join([*imports[:n_first], "", body])
    is_import = [line.startswith(("import ", "from ")) for line in lines]
    n = next((i for i, line in enumerate(lines) if line and not is_import[i]), 0)
    found = {line for line in [*lines[:n], *imports] if line}
    standard = [line for line in found if line.split()[1] in sys.stdlib_module_names]
    others = found.difference(standard)
    groups = [sorted(group, key=_import_order) for group in (standard, others) if group]
    top = "\n\n".join("\n".join(group) for group in groups)
    return "\n".join([top, "", "", *lines[n:]])


def _used(imports: Sequence[str], text: str) -> list[str]:
    """List the imports whose names a text has."""
    names = {n.id for n in ast.walk(parse(text)) if isinstance(n, ast.Name)}
    return [line for line in imports if names & _bound(line)]


def _bound(line: str) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in parse(line).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line.split()[1]


def _own_modules(source: Source) -> list[str]:
    """List the modules that a text imports and that no installation has."""
    names = [
        name
        for node in parse(str(source)).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    ]
    roots = dict.fromkeys(name.partition(".")[0] for name in names)
    return [name for name in roots if name and _is_own(name)]


def _is_own(name: str) -> bool:
    if name in sys.stdlib_module_names:
        return False
    spec = importlib.util.find_spec(name)
    place = "" if spec is None else spec.origin or ""
    installed = (sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib"))
    return bool(place) and not place.startswith(tuple(installed))


def _title(keep: Keep, story: Story, source: Source) -> str:
    needed = ", ".join(f"`{name}`" for name in _own_modules(source))
    lines = [
        story.told or keep.describe(),
        *([f"It failed in {story.rate:.0%} of the runs."] if story.rate < 1 else []),
        *([story.control] if story.control else []),
        *(said.beside(source.module.body) for said in story.explained),
        "",
        story.line(),
        f"Pinned failure: {keep.plain()}.",
        f"Fails on: {versions()}.",
        *([f"Check: {keep.how_to_check}"] if keep.how_to_check else []),
        *([f"It needs {needed} in PYTHONPATH."] if needed else []),
        *strings_left(source.report),
    ]
    return "\n".join(map(printable, lines))


def versions() -> str:
    """Describe the installation: JAX, its device, Python."""
    devices = sorted({device.platform for device in jax.devices()})
    shown = ", ".join(name.upper() for name in devices)
    return (
        f"jax {jaxapi.jax_version()}, jaxlib {jaxapi.jaxlib_version()}, {shown} "
        f"({platform.machine()}), Python {sys.version_info[0]}.{sys.version_info[1]}"
    )


def _still_fails(source: Source, program: Program, judge: Judge) -> bool:
    """Run the very text in a worker."""
    found = [job_for(program, run, source) for run in judge.keep.runs]
    jobs = tuple(job for job in found if job is not None)
    is_whole = len(jobs) == len(found)
    return is_whole and judge.judge(Trial(program, jobs)).is_interesting
