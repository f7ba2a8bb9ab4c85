"""Put the parts of a module together: header, imports, constants, functions, main.

The header's verdict is written last, once the text has been verified, so `Module` keeps
header and body apart. The body is laid out in 88 columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from untrace import jaxapi
from untrace._version import __version__
from untrace.errors import LiftingError
from untrace.lifting.lift import Listing
from untrace.lifting.spelling.arrays import sidecar_loader
from untrace.printable import printable
from untrace.syntax.formatting import format_source
from untrace.syntax.layout import lay_out
from untrace.syntax.text import docstring, quote

# Known only when the file is saved.
PLACEHOLDER_NAME = "sidecar.safetensors"
PLACEHOLDER_DIGEST = "0" * 64
# At the start of a line, so never in a string literal.
_LOADED = re.compile(
    rf'^CONSTANTS = load_arrays\(\s*"{PLACEHOLDER_NAME}",\s*"{PLACEHOLDER_DIGEST}",?\s*\)',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a generated module.

    Attributes:
      body: Everything after the docstring.
      name: The main function.
      classes: Names of the NamedTuples that stand for the user's classes.
      stored: Arrays for the sidecar, by name; empty if none is needed.
      opened: Primitives of libraries that are written as what they compute.
    """

    body: str
    name: str
    classes: dict[Any, str]
    stored: dict[str, Any] = field(default_factory=dict[str, Any])
    opened: frozenset[Any] = frozenset()

    def text(self, header: str) -> str:
        """Return the whole file."""
        return f"{docstring(header)}\n\n{self.body}"

    def with_sidecar(
        self, name: str, digest: str, header: str = "Verification."
    ) -> str:
        """Return the whole file, naming its sidecar and the digest of that."""
        loaded = f"CONSTANTS = load_arrays({quote(name)}, {quote(digest)})"
        body = _LOADED.sub(lambda _: loaded, self.body, count=1)
        return f"{docstring(header)}\n\n{body}"


def emit(listing: Listing) -> Module:
    """Assemble the module's text."""
    lifter = listing.lifter
    functions: list[str] = []
    for function in [*lifter.functions, listing.main]:
        functions += ["", "", *function.text_lines()]
    tail = _tail(listing)
    texts = dict(listing.classes.values())  # one class may stand for several
    classes = [line for lines in texts.values() for line in ["", "", *lines]]
    constants = _constants(listing)
    lines = [*constants, *classes, *listing.helper_lines(), *functions, *tail]
    if lifter.options.level == "api":
        text = "\n".join(lines)
        body = format_source("\n".join([*_imports(listing, text), text]))
    else:
        text = "\n".join(lay_out(lines))
        imports = "\n".join(lay_out(_imports(listing, text)))
        body = f"{imports}\n{text}"
    body = body.strip("\n") + "\n"
    if not body.replace("\n", "").isprintable():
        raise LiftingError("the text has characters that cannot be printed")
    names = {key: name for key, (name, _) in listing.classes.items()}
    stored = dict(lifter.constants.stored)
    return Module(body, listing.main.name, names, stored, lifter.opened)


def header(origin: str, verdict: str, notes: list[str], fingerprint: str = "") -> str:
    """Write the text of the module's docstring, with a line for every note."""
    versions = f"untrace {__version__} on jax {jaxapi.jax_version()}"
    lines = [printable(f"{origin}, recovered by {versions}."), ""]
    lines += [verdict, *map(printable, notes)]
    if fingerprint:
        lines += ["", fingerprint]
    return "\n".join(lines)


def _imports(listing: Listing, text: str) -> list[str]:
    """Write the imports that the text needs, and the settings it was traced under."""
    lines = listing.lifter.imports.lines(text)
    settings = jaxapi.ambient_settings()
    return [*lines, *([""] if settings and lines else []), *settings]


def _constants(listing: Listing) -> list[str]:
    constants = listing.lifter.constants
    definitions = listing.lifter.imports.definitions
    lines: list[str] = ["", *constants.numbers] if constants.numbers else []
    lines += ["", *definitions] if definitions else []
    if constants.stored:
        imports = listing.lifter.imports
        loader = sidecar_loader(PLACEHOLDER_NAME, PLACEHOLDER_DIGEST, imports)
        lines += ["", "", *loader.rstrip("\n").split("\n")]
        lines += constants.stored_lines
    if constants.lines:
        lines += [*([] if constants.stored else [""]), *constants.lines]
    return [*lines, *constants.refs]


def _tail(listing: Listing) -> list[str]:
    name = listing.main.name
    listing.lifter.imports.module("jax")
    indent = "        " if listing.context else "    "
    run = "jax.jit" if listing.is_runnable else "jax.make_jaxpr"
    return [
        "",
        "",
        "def example_args():",
        *(f"    {line}" for line in listing.example),
        *(["", "", *listing.context] if listing.context else []),
        "",
        "",
        'if __name__ == "__main__":',
        *(["    with tracing_context():"] if listing.context else []),
        f"{indent}print({run}({name})(**example_args()))",
    ]
