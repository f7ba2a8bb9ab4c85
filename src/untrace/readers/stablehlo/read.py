"""A StableHLO module as a jaxpr: parsed, its operations stated as `jax.lax`, and traced.

Functions become jitted functions of their names, and loops, sorts and calls of LAPACK
what of JAX is lowered to them, where lowering it again proves that (`idioms`). What JAX
cannot express is refused, with the place of the operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import LoadError, ParseError
from untrace.jaxapi.module_types import Block, Function, Module, ModuleError, TensorType
from untrace.jaxapi.modules import artefact_version, parse_module
from untrace.readers.stablehlo.frames import Frame, WideError
from untrace.readers.stablehlo.identities import CALLS
from untrace.readers.stablehlo.idioms import Idioms
from untrace.readers.stablehlo.numbering import Numbering, TooLargeError
from untrace.readers.stablehlo.shapes import is_wide, struct
from untrace.readers.stablehlo.sizes import (
    argument_types,
    has_dynamic,
    renamed,
    with_sizes,
)
from untrace.readers.stablehlo.tokens import without_tokens

MAX_CALLED = 2_000_000
"""How many operations there may be when every call is written out."""

EXPORTED = "_wrapped_jax_export_main"
"""The function of a program whose sizes vary: they are its first arguments."""
INLINED = re.compile(
    r"(closed_call|core_call|None|custom_jvp_call)([_.]\d+)?|.*_computation(\.\d+)?"
    rf"|{EXPORTED}"
)
"""Functions that JAX makes for its own ends."""


@dataclass(frozen=True)
class Reading:
    """What was read of a module.

    Attributes:
      jaxpr: The closed jaxpr, whose debug info names function, arguments and results.
      is_wide: Whether it has values of 64 bits, and JAX must be told so.
    """

    jaxpr: Any
    module: Module
    is_wide: bool


def read_module(content: Any, is_artefact: bool = False) -> Reading:
    """Read a module.

    Args:
      content: Text, or what JAX made of a module in this process; or a parsed `Module`.
      is_artefact: Whether it is that of an exported program.

    Raises:
      LoadError: If it is none, not valid, or holds what JAX cannot express.
    """
    module = content if isinstance(content, Module) else parsed(content)
    try:
        with jaxapi.deep_recursion():
            try:
                with jax.enable_x64(False):
                    return Reading(_traced(module, is_artefact), module, False)
            except WideError:
                with jax.enable_x64(True):
                    return Reading(_traced(module, is_artefact), module, True)
    except TooLargeError:
        raise LoadError(
            f"cannot read the module: its functions call each other so often that they "
            f"hold more than {MAX_CALLED:,} operations. Cut it into smaller modules."
        ) from None
    except RecursionError:
        raise LoadError(
            "cannot read the module: its regions and calls are nested too deeply"
        ) from None


def parsed(content: Any) -> Module:
    """Parse a module; its order of effects is no tokens any more (`tokens`).

    Raises:
      LoadError: If it cannot be parsed, or its functions call themselves.
    """
    try:
        module = parse_module(content)
    except ModuleError as error:
        raise not_parsed(error, content) from None
    check_calls(module)
    with jaxapi.deep_recursion():
        return without_tokens(module)


def not_parsed(error: ModuleError, content: Any = None) -> LoadError:
    """Return the error that says what is wrong with a module, where, and what to do.

    Args:
      error: What MLIR says.
      content: The text of the module, if it is one, of which the line is shown.
    """
    said = str(error).rstrip(". ")
    text = content if isinstance(content, str) else ""
    then = next((then for words, then in _ADVICE if re.search(words, said)), "")
    foreign = None if then else _FOREIGN_TYPE.search(text)
    if (
        foreign
    ):  # whether its dialect is known depends on what ran in the process before
        problem = f"{_NO_MODULE}: `!{foreign[1]}` is a type of another dialect"
        return ParseError(problem, text, foreign.start(), _DIALECTS)
    if not then and text.count("{") > text.count("}"):
        then = "It is cut off, or a bracket is missing: give all of it."
    written = f"{_WRITTEN}; {_CHANGED if text else _NEWER}"
    then = (then or written).format(version=artefact_version())
    place = re.match(r"line (\d+), column (\d+): ", said)
    if not text or place is None:
        return LoadError(f"{_NO_MODULE}: {said}. {then}")
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: int(place[1]) - 1])
    position = min(before + int(place[2]) - 1, len(text))
    return ParseError(f"{_NO_MODULE}: {said[place.end() :]}", text, position, then)


_NO_MODULE = "this is no StableHLO that can be read"
_WRITTEN = "A module is written by `jax.jit(f).lower(...).as_text()` or `jax.export`"
_CHANGED = "if this is one, it was changed here, or a newer JAX has another syntax."
_NEWER = (
    "portable artefacts are read up to version {version} of StableHLO, which newer "
    "releases of JAX go beyond: install one, or export for an older version."
)
_DIALECTS = (
    "The dialects stablehlo, chlo, func, sdy and mhlo are read: convert the program to "
    "StableHLO first."
)
_FOREIGN_TYPE = re.compile(r"!(?!(?:stablehlo|chlo|sdy|mhlo)\.)(\w+)\.\w")
_ADVICE = (
    (
        r"operation 'vhlo\.",
        "It was written by a newer JAX: version {version} of StableHLO is the newest that "
        "is read here. Install that JAX, or export for an older version.",
    ),
    (
        "no function `main`",
        "A module begins with the function `main`: call the one to read so.",
    ),
    (
        r"Dialect `\w+' not found|unregistered dialect",
        _DIALECTS,
    ),
    (
        r"custom op '\w+\.\w+' is unknown",
        "Version {version} of StableHLO, which jaxlib has here, has no such operation. "
        "If a newer one has, install the JAX that wrote it, or export for an older "
        "version.",
    ),
    (
        r"attempting to parse \d+ bytes|null-terminated|end of file|unexpected end",
        "It is cut off or damaged, or was written by a newer JAX: give all of it. "
        "Artefacts are read up to version {version} of StableHLO.",
    ),
)
"""What to do by what MLIR says."""


def check_calls(module: Module) -> None:
    """Refuse functions that call themselves or functions that are not there."""
    state: dict[str, str] = {}
    todo: list[tuple[str, bool]] = [(module.main.name, False)]
    while todo:
        name, is_done = todo.pop()
        if is_done:
            state[name] = "done"
            continue
        if state.get(name) == "done":
            continue
        if name not in module.functions:
            raise LoadError(f"cannot read the module: it has no function `{name}`")
        if state.get(name) == "open":
            raise LoadError(f"cannot read the module: `{name}` calls itself")
        state[name] = "open"
        todo.append((name, True))
        for callee in called_functions(module.functions[name].block):
            if state.get(callee) == "open":
                raise LoadError(f"cannot read the module: `{callee}` calls itself")
            todo.append((callee, False))


def called_functions(block: Block) -> list[str]:
    """Return the names of the functions that a block calls."""
    found: list[str] = []
    for operation in block.operations:
        name = "callee" if operation.name in CALLS else "decomposition"
        if operation.name in CALLS or operation.name == "stablehlo.composite":
            found.append(str(operation.attributes[name]))
        for inner in operation.regions:
            found += called_functions(inner)
    return found


def _traced(module: Module, is_artefact: bool) -> Any:
    functions = _Functions(module, is_artefact or has_composites(module))
    main = module.main
    types = [_checked(value.type) for value in main.block.arguments]
    if any(map(is_wide, types)) and not jaxapi.is_wide():
        raise WideError
    if has_dynamic(module):
        types = argument_types(module, main.block.arguments)
    name = _name(module)
    return jaxapi.trace_named(
        functions.frame(main).run,
        [struct(kind) for kind in types],
        name,
        _argument_paths(module),
        main.result_paths,
    )


def _argument_paths(module: Module) -> tuple[str, ...]:
    """Return what the arguments are called, which the function may say that `main` calls."""
    paths = module.main.argument_paths
    inner = module.functions.get(EXPORTED)
    if any(paths) or inner is None:
        return paths
    return inner.argument_paths[-len(paths) or len(inner.argument_paths) :]


def has_composites(module: Module) -> bool:
    """Whether a module has the composites that exporting makes of operations of CHLO."""
    return any(
        one.name == "stablehlo.composite"
        and str(one.attributes.get("name", "")).startswith("chlo.")
        for one in module.operations()
    )


def _checked(kind: Any) -> TensorType:
    """Return the type of an argument, and refuse all but arrays."""
    if not isinstance(kind, TensorType):
        raise LoadError(
            f"cannot read the module: an argument is of type {kind}. "
            "Only arrays of a known number of axes are taken."
        )
    return kind


def _name(module: Module) -> str:
    return module.name.removeprefix("jit_").removeprefix("pmap_") or "main"


class _Functions:
    """The functions of a module, each made once."""

    def __init__(self, module: Module, is_artefact: bool) -> None:
        self.module = module
        self.numbering = Numbering(MAX_CALLED)
        self.idioms = Idioms(self.numbering, is_artefact)
        self.frames: dict[str, Frame] = {}
        self.jitted: dict[str, Callable[..., list[Any]]] = {}

    def frame(self, function: Function) -> Frame:
        """Return a function with its values numbered."""
        if function.name not in self.frames:
            made = Frame(
                self.module, function, self.numbering, self.idioms.find, self.called
            )
            self.frames[function.name] = made
        return self.frames[function.name]

    def called(self, name: str) -> Callable[..., list[Any]]:
        """Return what evaluates a function of the module: a jitted one, mostly."""
        if name not in self.jitted:
            function = self.module.functions[name]
            run = self.frame(function).run
            if not INLINED.fullmatch(name):
                n_arguments = len(function.block.arguments)
                named = renamed(run, self._plain(name), n_arguments)
                run = with_sizes(named) if has_dynamic(self.module) else jax.jit(named)
            self.jitted[name] = run
        return self.jitted[name]

    def _plain(self, name: str) -> str:
        """Return the name of a function without the number that tells it from others."""
        base = re.sub(r"_\d+$", "", name)
        known = base if base in self.module.functions else name
        return re.sub(r"\.\d+$", "", known)
