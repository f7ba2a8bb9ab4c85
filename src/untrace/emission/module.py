"""Put the parts of a module together: header, imports, constants, functions, main.

The header's verdict is written last, once the text has been verified, so `Module` keeps
header and body apart. The body is laid out in 88 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from untrace import jaxapi
from untrace._version import __version__
from untrace.emission.stored import with_call
from untrace.errors import LiftingError
from untrace.lifting.lift import Listing
from untrace.lifting.spelling.sidecar import (
    packed_lines,
    sidecar_loader,
    unpacker_function,
)
from untrace.printable import printable
from untrace.syntax.formatting import format_source
from untrace.syntax.layout import lay_out
from untrace.syntax.tables import with_tables
from untrace.syntax.text import docstring, quote

# Known only when the file is saved.
PLACEHOLDER_NAME = "sidecar.safetensors"
PLACEHOLDER_DIGEST = "0" * 64
WIDE_NOTE = (
    "It computes in 64 bits and leaves the setting of the process alone; enter "
    "jax.enable_x64(True) around jax.jit, jax.grad and the like of it, too."
)


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a generated module.

    Attributes:
      body: Everything after the docstring.
      name: The main function.
      classes: Names of the NamedTuples that stand for the user's classes.
      stored: Arrays for the sidecar, by name; empty if none is needed.
      opened: Primitives of libraries that are written as what they compute, and whether
        with their backward passes.
      originals: What its functions are in the place of where they cannot do all of it,
        by their names: stand-ins, and those that refuse to be differentiated.
    """

    body: str
    name: str
    classes: dict[Any, str]
    stored: dict[str, Any] = field(default_factory=dict)
    opened: Mapping[Any, bool] = field(default_factory=dict[Any, bool])
    originals: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def text(self, header: str) -> str:
        """Return the whole file."""
        return f"{docstring(header)}\n\n{self.body}"

    def with_sidecar(
        self, name: str, digest: str, header: str = "Verification."
    ) -> str:
        """Return the whole file, naming its sidecar and the digest of that."""
        body = with_call(self.body, [quote(name), quote(digest)])
        return f"{docstring(header)}\n\n{body}"

    def with_packed(self, packed: str, header: str) -> str:
        """Return the whole file with its arrays inside (see `sidecar.pack`)."""
        body = with_call(self.body, packed_lines(packed), unpacker_function)
        return f"{docstring(header)}\n\n{body}"


def emit(listing: Listing) -> Module:
    """Assemble the module's text."""
    lifter = listing.lifter
    functions: list[str] = []
    wide = _wide(listing)
    if wide:
        lifter.note(WIDE_NOTE)
    main = replace(listing.main, decorators=[*wide, *listing.main.decorators])
    shown: set[str] = set()
    for function in [*lifter.functions, main]:
        is_described = lifter.options.shows_docstrings
        lines = (
            function.described_lines(shown) if is_described else function.text_lines()
        )
        functions += ["", "", *lines]
    tail = _tail(listing)
    texts = dict(listing.classes.values())  # one class may stand for several
    classes = [line for lines in texts.values() for line in ["", "", *lines]]
    constants = _constants(listing)
    lines = [*constants, *classes, *listing.helper_lines(), *functions, *tail]
    needed = lifter.imports.needed_modules("\n".join(lines))
    if needed and not lifter.options.keep_types:
        lifter.note(f"It imports {', '.join(needed)}, without which it cannot be run.")
    if lifter.options.level == "api":
        text = "\n".join(lines)
        body = "\n".join([*lifter.imports.lines(text), text])
        body = format_source(_checked(body))
    else:
        text = "\n".join(lay_out(lines))
        imports = "\n".join(lay_out(lifter.imports.lines(text)))
        body = f"{imports}\n{text}"
    body = _checked(with_tables(body.strip("\n") + "\n"))
    names = {key: name for key, (name, _) in listing.classes.items()}
    stored = dict(lifter.constants.stored)
    return Module(
        body,
        listing.main.name,
        names,
        stored,
        lifter.opened,
        dict(lifter.originals),
    )


def _checked(text: str) -> str:
    if not text.replace("\n", "").isprintable():
        raise LiftingError("the text has characters that cannot be printed")
    return text


def header(origin: str, verdict: str, notes: list[str], fingerprint: str = "") -> str:
    """Write the text of the module's docstring, with a line for every note."""
    versions = f"untrace {__version__} on jax {jaxapi.jax_version()}"
    lines = [printable(f"{origin}, recovered by {versions}."), ""]
    lines += [verdict, *map(printable, notes)]
    if fingerprint:
        lines += ["", fingerprint]
    return "\n".join(lines)


def _wide(listing: Listing) -> list[str]:
    """The context in which the program computes in 64 bits, if it was traced in one.

    The setting is this thread's, and entered where it is needed: a process that imports
    the file goes on as it was.
    """
    if not jaxapi.is_wide():
        return []
    return [f"{listing.lifter.imports.module('jax')}.enable_x64(True)"]


def _under(wide: list[str], lines: list[str], listing: Listing) -> list[str]:
    """Write statements that may make arrays of JAX in the context that they need."""
    if not (wide and _uses_jax(lines, listing)):
        return lines
    statements = textwrap.indent("\n".join(lines).strip("\n"), "    ").split("\n")
    return ["", f"with {wide[0]}:", *statements]


def _uses_jax(lines: list[str], listing: Listing) -> bool:
    imports = listing.lifter.imports.lines("\n".join(lines))
    return any("jax" in line for line in imports)


def _constants(listing: Listing) -> list[str]:
    wide = _wide(listing)
    constants = listing.lifter.constants
    definitions = listing.lifter.imports.definitions
    lines: list[str] = ["", *constants.numbers] if constants.numbers else []
    lines += ["", *definitions] if definitions else []
    lines = _under(wide, lines, listing)
    if constants.stored:
        imports = listing.lifter.imports
        loader = sidecar_loader(PLACEHOLDER_NAME, PLACEHOLDER_DIGEST, imports)
        lines += ["", "", *loader.rstrip("\n").split("\n")]
    space = [""] if constants.lines and not constants.stored else []
    arrays = [*constants.stored_lines, *space, *constants.lines, *constants.refs]
    return [*lines, *_under(wide, arrays, listing)]


def _tail(listing: Listing) -> list[str]:
    name, wide = listing.main.name, _wide(listing)
    listing.lifter.imports.module("jax")
    items = [*wide, *(["tracing_context()"] if listing.context else [])]
    indent = "        " if items else "    "
    run = f"jax.jit({name})" if listing.is_jittable else name
    run = run if listing.is_runnable else f"jax.make_jaxpr({name})"
    needs_wide = wide and _uses_jax(listing.example, listing)
    weights = listing.lifter.weight_lines
    return [
        *(["", "", *weights] if weights else []),
        "",
        "",
        *(f"@{item}" for item in wide if needs_wide),
        "def example_args():",
        *(f"    {line}" for line in listing.example),
        *(["", "", *listing.context] if listing.context else []),
        "",
        "",
        'if __name__ == "__main__":',
        *([f"    with {', '.join(items)}:"] if items else []),
        f"{indent}print({run}(**example_args()))",
    ]
