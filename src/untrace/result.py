"""`Source`: the text of a recovered program, what is known of it, and how to keep it."""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.drop_in import drop_in
from untrace.emission import Module
from untrace.emission.module import header
from untrace.errors import SaveError, UntraceError
from untrace.ir import Block
from untrace.lifting.dimensions import is_symbolic
from untrace.lifting.spelling.sidecar import pack, sidecar_digest, write_sidecar
from untrace.line_origins import LineOrigin, explain
from untrace.optional import Decision
from untrace.options import Options
from untrace.pickled import Kept, kept_module, kept_parity, kept_report, restored_module
from untrace.printable import printable, printable_lines
from untrace.syntax.files import aside, replace_file
from untrace.verification.fingerprint import fingerprint
from untrace.verification.marks import marks_of
from untrace.verification.report import VERDICTS, Report
from untrace.verification.retrace import execute, retrace

EXPLAINED = "<explained>"
"""The name, in tracebacks, of a text whose lines are explained."""

PRINTED_CHARS = 1 << 16
"""Most characters of compressed constants in a text that is printed."""

MOST_COMPRESSED = 4
"""Bytes that a character of compressed text may stand for, to try at all."""


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """A recovered program.

    Attributes:
      module: The generated module in parts.
      report: What was verified, and how.
      captured: The captured computation: jaxpr and signature.
      program: The computation in the internal form.
      options: What was asked for.
      title: What the header says, if not what was verified (a reproducer, which is
        pasted into a tracker: its file has no marks).
      decisions: What was done only to make the text better, or not (`source(refuse=)`).
      parity: How near it comes to the module of torch that it was made of
        (`readers.torch.parity.Parity`), or None.
      kept: What there is in place of `captured` and `program`, which are None, in one
        that was pickled.
    """

    module: Module
    report: Report
    captured: Captured
    program: Block
    options: Options
    title: str = ""
    decisions: tuple[Decision, ...] = ()
    parity: Any = None
    kept: Kept | None = None
    _text: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self._text:
            self._text.append(self.printed())
        return self._text[0]

    def printed(self, limit_chars: int = PRINTED_CHARS, command: str = "") -> str:
        """Return the file as one text, which needs no other file where that is possible.

        Small constants are written out, and large ones as compressed text.

        Args:
          limit_chars: Most characters of compressed text (>= 0). What would be longer is
            left out, which the first line says.
          command: What saves the file with its constants, for that line.

        Returns:
          The text. If constants are left out, it looks for them in a sidecar, as the
          saved file does.
        """
        stored = self.module.stored
        if not stored:
            return self.module.text(self._header())
        size_bytes = sum(array.nbytes for array in stored.values())
        if size_bytes <= limit_chars * MOST_COMPRESSED:
            packed = pack(stored)
            if len(packed) <= limit_chars:
                return self.module.with_packed(packed, self._header())
        command = command or f'src.save("{self.name}.py")'
        missing = (
            f"INCOMPLETE: its constants, {_size(size_bytes)}, are saved by:\n"
            f"{printable(command)}"
        )
        sidecar = f"{self.name}.safetensors"
        header = f"{missing}\n\n{self._header()}"
        return self.module.with_sidecar(sidecar, sidecar_digest(stored), header)

    @property
    def text(self) -> str:
        """The file, as `str` gives it."""
        return str(self)

    def _header(self) -> str:
        if self.kept is not None:
            return self.kept.header
        name = self.module.name
        if not self.title:
            return header_text(name, self.captured, self.report)
        return printable_lines(self.title)  # to be pasted: no fingerprint

    def __repr__(self) -> str:
        n_lines = str(self).count("\n")
        return f"<untrace.Source of `{self.module.name}`: {n_lines} lines, {self.report.strength}>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file and, where constants are large, its sidecar beside it.

        Both are written to temporary files first and then renamed, so that nothing
        half-written is left behind. A sidecar is replaced only if the file that is
        replaced, too, was saved with it.

        Args:
          path: Path of the Python file.

        Returns:
          The path.

        Raises:
          SaveError: If the place cannot be written, or another file has the sidecar's
            name. Then all files are as they were.
        """
        target = Path(path)
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            with keeping_sidecar(target, needs_one=bool(self.module.stored)) as sidecar:
                if self.module.stored:
                    digest = write_sidecar(sidecar, self.module.stored)
                    text = self._text_with_sidecar(sidecar.name, digest)
                else:
                    text = str(self)
                write_text(target, "\n".join([text, *self._marks()]))
        except OSError as error:
            raise SaveError(
                f"cannot write {target}: {error.strerror or error}. Nothing was left behind; "
                "choose another path or make the folder writable."
            ) from error
        return target

    def _text_with_sidecar(self, name: str, digest: str) -> str:
        return self.module.with_sidecar(name, digest, self._header())

    def _marks(self) -> list[str]:
        """The last lines of a saved file, which tell `verify` where it was edited."""
        if self.kept is not None:
            return [*self.kept.marks]
        if self.title:
            return []
        traced = _fingerprinted(self.captured, self.report)
        return [] if traced is None else ["", *marks_of(traced).lines(), ""]

    def load(self) -> Callable[..., Any]:
        """Execute the source and return its function, to be called as the original is.

        It takes the arguments that the original takes, by position, keyword or default,
        and returns the user's own types; modules of flax.nnx are changed in place.
        Arguments of the file's own classes are taken, too; then the result is that of
        the file. Callbacks, batching rules and primitives of libraries are the original's
        own where the file has stand-ins for them. One that was pickled returns the
        file's own function.

        Returns:
          The function. It raises `CallError`, a `TypeError`, if an argument that is
          fixed in the program has another value, or another tree.
        """
        module = self._executed()
        if self.kept is not None:
            return getattr(module, self.name)
        vars(module).update(self.module.originals)
        return drop_in(module, self.name, self.captured, self.module.classes)

    def _executed(self) -> ModuleType:
        with tempfile.TemporaryDirectory() as folder:
            if not self.module.stored:
                return execute(str(self))
            path = self.save(Path(folder) / "module.py")
            text = path.read_text(encoding="utf-8")
            return execute(text, path=str(path))

    def __eq__(self, other: object) -> bool:
        """Whether both have the same text, header and all."""
        if not isinstance(other, Source):
            return NotImplemented
        return self is other or str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the text, report, options and decisions; the computation stays here."""
        kept = self.kept or Kept(self._header(), tuple(self._marks()))
        return (
            _restored,
            (
                kept_module(self.module),
                kept_report(self.report),
                self.options,
                self.title,
                self.decisions,
                kept_parity(self.parity),
                kept,
                str(self),
            ),
        )

    def __copy__(self) -> Source:
        return self  # nothing can change it

    def __deepcopy__(self, memo: dict[int, Any]) -> Source:
        return self

    def diff(self, other: Source) -> str:
        """Return the lines in which the text of another source differs ("" if in none).

        It compares texts, as `diff -u` does; `untrace.diff` compares programs.
        """
        texts = [str(source).splitlines(keepends=True) for source in (self, other)]
        names = f"{self.name} (before)", f"{other.name} (after)"
        before, after = texts
        return "".join(difflib.unified_diff(before, after, *names))

    def explain(self, line: int) -> LineOrigin:
        """Say which of your lines a line of the file comes from, and what shaped it.

        Args:
          line: A line of `str(source)`, from 1.

        Returns:
          Your lines and the equations that they made, and the decisions that may be
          refused; `print` shows it. The text is traced once more for it.

        Raises:
          ValueError: If the file has no such line.
          UntraceError: If the source was pickled.
        """
        if self.kept is not None:
            raise UntraceError(
                "this source was pickled, and its program was left behind: recover it again."
            )

        def traced() -> tuple[Any, str]:
            # The lines are those of the printed text, which may look for a sidecar.
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"{self.name}.py"
                if self.module.stored:
                    self.save(path)
                module = execute(str(self), EXPLAINED, str(path))
                classes = dict(self.module.classes)
                jaxpr, _ = retrace(module, self.name, self.captured, classes)
            return jaxpr, EXPLAINED

        return explain(str(self), line, self.captured.jaxpr, traced, self.decisions)

    @property
    def name(self) -> str:
        """The name of the main function."""
        return self.module.name

    def _repr_html_(self) -> str:
        from untrace.highlight import to_html

        return to_html(str(self), f"{self.name}: {self.report.strength}")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))


def _restored(
    module: Module,
    report: Report,
    options: Options,
    title: str,
    decisions: tuple[Decision, ...],
    parity: Any,
    kept: Kept,
    text: str,
) -> Source:
    """Make a source of what was pickled."""
    none: Any = None
    given = options, title, decisions, parity, kept, [text]
    return Source(restored_module(module), report, none, none, *given)


def _size(size_bytes: int) -> str:
    """Write a size for people.

    >>> _size(999), _size(160_000), _size(1_250_000)
    ('999 bytes', '160 kB', '1.2 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1000:.0f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def write_text(path: Path, text: str) -> None:
    """Write a file through a temporary one in the same folder."""
    replace_file(path, [text.encode("utf-8")])


@contextlib.contextmanager
def keeping_sidecar(target: Path, needs_one: bool) -> Generator[Path, None, None]:
    """Put the sidecar of a file that is written anew out of the way.

    It is ours if the file that is there names its digest. Should writing fail, it comes
    back.

    Raises:
      SaveError: If another file has its name.
    """
    sidecar = target.with_suffix(".safetensors")
    if sidecar == target:
        raise SaveError(
            f"cannot write {target}: the constants go to a file of that name. "
            "Choose a name that ends in .py."
        )
    is_ours = _is_sidecar_of(sidecar, target)
    if needs_one and not is_ours and os.path.lexists(sidecar):
        raise SaveError(
            f"cannot write {target}: its constants would replace {sidecar}, which "
            f"{target.name} was not saved with. Choose another path, or move that file."
        )
    before = aside(sidecar)
    if is_ours:
        os.replace(sidecar, before)
    try:
        yield sidecar
    except BaseException:  # also on Ctrl-C
        if is_ours:
            os.replace(before, sidecar)
        elif needs_one:
            sidecar.unlink(missing_ok=True)
        raise
    before.unlink(missing_ok=True)


def _is_sidecar_of(sidecar: Path, target: Path) -> bool:
    """Whether the file at `target` was saved with this sidecar, and names its digest."""
    try:
        content, text = sidecar.read_bytes(), target.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest().encode() in text


def header_text(name: str, captured: Captured, report: Report) -> str:
    """Write the docstring of a generated file."""
    lines = [VERDICTS[report.strength], *map(printable, report.differences)]
    if not report.is_verified:
        lines += report.difference_lines()
    notes = [*(f"Not compared: {text}." for text in report.unproved), *report.notes]
    origin = captured.origin[:1].upper() + captured.origin[1:]
    return header(
        origin, "\n".join(lines), notes, fingerprint_line(name, captured, report)
    )


def fingerprint_line(name: str, captured: Captured, report: Report) -> str:
    """Write the paragraph by which a saved file can be checked again."""
    traced = _fingerprinted(captured, report)
    if traced is None:
        return ""
    made_on = f"jax {jaxapi.jax_version()}"
    return f"Fingerprint of `{name}` on {made_on}:\n{fingerprint(traced, report.interface)}"


def _fingerprinted(captured: Captured, report: Report) -> Any:
    """The jaxpr by which a saved file can be checked again, if it can."""
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    if not report.is_verified or any(map(is_symbolic, avals)):
        return None  # the example inputs of the file have sizes
    return captured.jaxpr if report.traced is None else report.traced
