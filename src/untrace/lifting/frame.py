"""One function being built: the text of every value in scope, and its statements.

How a primitive prints is decided by the rules in `table.py`, by the functions
registered with `control`, and, as the last resort, by `bind.py`. Nothing here executes
the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.ir import Atom, Block, Equation, Value
from untrace.lifting.blocks.branch_indices import without_indices
from untrace.lifting.blocks.flat_arguments import starred
from untrace.lifting.blocks.wholes import MIN_WHOLE, kept_whole
from untrace.lifting.contexts import managers, named_scope
from untrace.lifting.controls import ANY, CONTROLS, PREFERRED
from untrace.lifting.dimensions import mentions, readings
from untrace.lifting.heads import Parameter, Parameters
from untrace.lifting.lifter import Lifter
from untrace.lifting.lines.alike import without_repetition
from untrace.lifting.lines.folding import folded
from untrace.lifting.lines.function_lines import Made
from untrace.lifting.names.naming import UNNAMED, block_name, input_hints, result_name
from untrace.lifting.names.source_names import LibraryName, is_library
from untrace.lifting.names.source_roles import statement_start
from untrace.lifting.printing import (
    INDENT,
    LOWEST_STEP,
    MAX_NESTING,
    Function,
    Group,
    OutOfReach,
    Rhs,
    unpacked,
)
from untrace.lifting.rules.when import dtype_name
from untrace.lifting.steps import callee
from untrace.optional import gives, optional
from untrace.progress import tick
from untrace.recovery.quoting import closely_quoted, quoted
from untrace.syntax.names import Scope, identifier
from untrace.syntax.text import comment

# Equations with functions that close over their first operands, whatever these are.
_CLOSING = frozenset({"call_hi_primitive", "custom_jvp_call", "custom_vjp_call"})


class Frame:
    """One function being built."""

    __slots__ = (
        "_used",
        "ambient",
        "bare",
        "block",
        "constants",
        "depth",
        "dimensions",
        "env",
        "is_long",
        "lifter",
        "lines",
        "made",
        "names",
        "open",
        "origin",
        "outer",
    )

    def __init__(
        self,
        lifter: Lifter,
        names: Scope,
        env: dict[Value, str],
        *,
        depth: int = 0,
        ambient: Any = None,
    ) -> None:
        self.lifter = lifter
        self.names = names
        self.env = env
        self.lines: list[str] = []
        self.made: dict[str, Made] = {}
        self.depth = depth
        self.ambient = ambient
        self.is_long = False  # whether it names many values in one statement
        self.open: Any = None
        self.outer: Frame | None = None
        self.constants: set[Value] = set()
        self.dimensions: tuple[int, list[tuple[str, str]]] = (0, [])
        self.block: Block | None = None
        self.origin: tuple[str, bool] | None = None
        self._used: tuple[Block | None, set[Any]] = None, set()

    # ---- atoms ---------------------------------------------------------------------

    def text(self, atom: Atom) -> str:
        """Return the text of an operand, exactly typed."""
        if type(atom) is Value:
            return self.env[atom]
        return self.lifter.literals.exact(atom.value, atom.aval)  # type: ignore[union-attr]

    def bare_text(self, atom: Atom) -> str:
        """Return the text of an operand, with literals as bare Python scalars."""
        if type(atom) is Value:
            return self.env[atom]
        return self.lifter.literals.bare(atom.value)  # type: ignore[union-attr]

    def texts(self, atoms: Iterable[Atom]) -> list[str]:
        """Return the texts of several operands."""
        return [self.text(atom) for atom in atoms]

    def define(self, value: Value, hint: str) -> str:
        """Give a value a new name."""
        name = self.env[value] = self.lifter.defined[value] = self.names.fresh(hint)
        return name

    # ---- statements ----------------------------------------------------------------

    def body(self, block: Block) -> None:
        """Write all equations of a block whose inputs are defined."""
        beside = _closed_over_together(block)
        for value, const in block.constants:
            if value not in self.env:
                others = [self.env.get(other, "") for other in beside.get(value, ())]
                self.env[value] = self.lifter.constants.name(const, "", others)
            self.constants.add(value)
        self.block = block
        equations: Sequence[Equation] = block.equations
        if "cond" in [eqn.name for eqn in equations]:
            equations = without_indices(block, self.lifter)
        for eqn in equations:
            self.equation(eqn)

    def uses(self, value: Value | None) -> bool:
        """Whether the block being written reads a value."""
        block, read = self._used
        if block is not self.block:
            block, read = self.block, set[Any]()
            if block is not None:
                read.update(block.outputs, *[eqn.operands for eqn in block.equations])
            self._used = block, read
        return value in read

    def equation(self, eqn: Equation) -> None:
        """Write one equation as a statement."""
        tick()
        if eqn.context is self.ambient and not self.lifter.options.scopes:
            self._statement(eqn)
            return
        self._in_context(eqn)

    def _statement(self, eqn: Equation) -> None:
        options = self.lifter.options
        if options.quotes or options.shows_origins:
            self._add_origin(eqn)
        self._assign(eqn, self._rhs(eqn))
        if self.lifter.options.types:
            self._add_types(eqn)

    def _add_origin(self, eqn: Equation) -> None:
        """Comment on where statements come from, once for each group of them."""
        origin = origin_of(eqn, self.lifter.options.quotes)
        if origin is None or origin == self.origin:
            return
        text, is_backward = origin
        if self.origin is not None and self.origin[1] != is_backward:
            self.lines.append("")
        self.origin = origin
        whose = "backward of: " if is_backward else ""
        self.lines.append(comment(whose + text))

    def _add_types(self, eqn: Equation) -> None:
        types = types_of(eqn)
        if types:
            self.lines[-1] += f"  {comment(types)}"

    def _assign(self, eqn: Equation, rhs: Rhs) -> None:
        self.lifter.steps.written[callee(rhs.text)].append(eqn)
        names = [
            self.define(value, self.lifter.hints.get(value) or result_name(eqn))
            if value is not None and self.uses(value)
            else "_"
            for value in eqn.results
        ]
        self.is_long = self.is_long or len(names) >= MIN_WHOLE
        if self.lifter.is_folding:
            self._note_names(eqn, names)
        if rhs.target is not None:
            target = rhs.target(names)
        elif len(names) == 1 and not eqn.primitive.multiple_results:
            target = names[0]
        else:
            target = unpacked(names)
        self.lines.append(f"{target} = {rhs.text}" if target else rhs.text)

    def _note_names(self, eqn: Equation, names: Sequence[str]) -> None:
        """Remember which statement of the user names come from, and whether they are his."""
        place = jaxapi.innermost(eqn.source_info)
        if place is not None:
            place = self._statement_of(*place)
        for value, name in zip(eqn.results, names):
            hint = self.lifter.hints.get(value) if value is not None else None
            is_foreign = isinstance(hint, LibraryName)
            self.made[name] = Made(
                place, hint is not None, hint == name, is_foreign=is_foreign
            )

    @staticmethod
    def _statement_of(file: str, line: int, is_backward: bool) -> tuple[str, int, bool]:
        if is_library(file):  # nobody looks for its statements
            return "", 0, is_backward
        return file, statement_start(file, line), is_backward

    def _rhs(self, eqn: Equation) -> Rhs:
        step = self.lifter.step(eqn)
        function = PREFERRED.get(eqn.name)
        if function is not None and step < LOWEST_STEP:
            rhs = function(eqn, self)
            if rhs is not None:
                return rhs
        if step >= LOWEST_STEP:
            try:
                return self._bound(eqn)
            except LiftingError:  # only its public function can be written
                step = 1
        text = self._by_rule(eqn, step)
        if text is not None:
            return Rhs(text)
        function = CONTROLS.get(eqn.name)
        if function is not None:
            rhs = function(eqn, self)
            if rhs is not None:
                return rhs
        return self._bound(eqn)

    def _bound(self, eqn: Equation) -> Rhs:
        """Write an equation as a call of `bind`, the last resort."""
        rhs = CONTROLS[ANY](eqn, self)
        assert rhs is not None
        return rhs

    def _by_rule(self, eqn: Equation, step: int) -> str | None:
        choices = self.lifter.choices(eqn)
        operands = eqn.operands
        if operands and type(operands[0]) is not Value:
            rules = choices.accepted.of_literal(dtype_name(operands[0]))
        else:
            rules = choices.accepted.of_values
        for rule in rules:
            if rule.when is not None and not rule.when(eqn):
                continue
            if step and not rule.template.startswith("jax.lax"):
                continue
            if not rule.calls_jax and not self.is_traced(operands):
                continue
            read = self.bare_text if rule.bare else self.text
            env = self.env
            texts = [env[a] if type(a) is Value else read(a) for a in operands]
            form = choices.form(rule)
            if rule.is_variadic:
                return form.format(*texts, operands=", ".join(texts))
            return form.format(*texts)
        return None

    def is_traced(self, atoms: Sequence[Atom]) -> bool:
        """Whether an operand is a tracer: numpy would compute on constants itself."""
        constants = self.constants
        for atom in atoms:  # noqa: SIM110  # `any` of a generator costs twice as much
            if type(atom) is Value and atom not in constants:
                return True
        return False

    def _in_context(self, eqn: Equation) -> None:
        """Write an equation under the context managers that its context needs."""
        if self.ambient is None:
            self.ambient = jaxapi.ambient_context()
        wanted = managers(eqn.context, self.ambient, self.lifter)
        if self.lifter.options.scopes:
            wanted += named_scope(eqn, self.lifter)
        if not wanted:
            self._statement(eqn)
            self.open = None
            return
        start = len(self.lines)
        self._statement(eqn)
        added = [INDENT + line if line else "" for line in self.lines[start:]]
        if self.open != (wanted, start):
            added.insert(0, f"with {', '.join(wanted)}:")
        self.lines[start:] = added
        self.open = (wanted, len(self.lines))

    # ---- sub-programs --------------------------------------------------------------

    def callable(
        self,
        block: Block,
        hint: str,
        captured: Sequence[Atom],
        groups: Sequence[Group],
        results: Callable[[Frame], str],
        given: Sequence[Atom] = (),
    ) -> str:
        """Print a block as a function of grouped parameters; return how to name it.

        The first inputs of the block are the `captured` operands: a nested function
        sees them as free variables, a shared one gets them by `functools.partial`.

        Args:
          block: The sub-program.
          hint: What to call it where JAX kept no name.
          captured: Operands for the first inputs.
          groups: How the other inputs form parameters.
          results: Writes what the function returns.
          given: What the other inputs are at first, after which they may be named.
        """
        name = block_name(block, hint)
        is_shared = id(block) in self.lifter.shared or self.depth >= MAX_NESTING
        # A nested function sees the symbolic dimensions of those around it.
        is_nested = bool(self.lifter.imports.dims) and self.depth < MAX_NESTING
        if (not captured or is_shared) and not is_nested:
            try:
                return self._module_function(
                    block, name, captured, groups, results, given
                )
            except OutOfReach:  # a rule inside closes over a value of this function
                pass
        return self._nested_function(block, name, captured, groups, results, given)

    def _module_function(
        self,
        block: Block,
        hint: str,
        captured: Sequence[Atom],
        groups: Sequence[Group],
        results: Callable[[Frame], str],
        given: Sequence[Atom] = (),
    ) -> str:
        n = len(captured)

        def build(frame: Frame) -> tuple[Parameters, list[str]]:
            frame.ambient = self.ambient
            own = [Group("captured", 1)] * n
            parameters = frame.parameters(
                block, [*own, *groups], 0, (*captured, *given)
            )
            frame.constants.update(block.inputs[:n])
            frame.body(block)
            frame.returns(results(frame))
            return parameters, []

        name = module_function(
            self.lifter, block, hint, build, key=(n, *groups, id(self.ambient))
        )
        if not captured:
            return name
        self.lifter.imports.module("functools")
        return f"functools.partial({', '.join([name, *self.texts(captured)])})"

    def _nested_function(
        self,
        block: Block,
        hint: str,
        captured: Sequence[Atom],
        groups: Sequence[Group],
        results: Callable[[Frame], str],
        given: Sequence[Atom] = (),
    ) -> str:
        name = self.names.fresh(identifier(hint, "function"))
        frame = self.child()
        for value, atom in zip(block.inputs, captured):
            frame.env[value] = self.text(atom)
            if atom in self.constants:
                frame.constants.add(value)
        parameters = frame.parameters(block, groups, len(captured), given)
        frame.body(block)
        frame.returns(results(frame))
        self.nest(Function(name, parameters, frame.lines).text_lines())
        return name

    def nest(self, lines: list[str]) -> None:
        """Add a nested definition, set off by blank lines."""
        if self.lines and self.lines[-1]:
            self.lines.append("")
        self.lines += [*lines, ""]

    def child(self) -> Frame:
        """Start a function nested in this one."""
        frame = Frame(
            self.lifter,
            Scope(self.names),
            {},
            depth=self.depth + 1,
            ambient=self.ambient,
        )
        frame.outer = self
        return frame

    def parameters(
        self,
        block: Block,
        groups: Sequence[Group],
        start: int,
        given: Sequence[Atom] = (),
    ) -> Parameters:
        """Name the inputs of a block, unpacking groups; return the parameters.

        Inputs that JAX kept no name of are called like what is `given` for them.
        """
        hints = input_hints(block)
        made: list[Parameter[str]] = []
        unpack: list[tuple[list[str], str]] = []
        whole = starred(block, groups, hints)
        if whole:
            groups = [Group(whole, len(groups), is_tuple=True, stars="*")]
        for index, atom in enumerate(given, start):
            known = self.lifter.hints.get(atom) if type(atom) is Value else None
            if known is not None and hints[index] == UNNAMED:
                hints[index] = self.lifter.hints[block.inputs[index]] = known
        for group in groups:
            values = block.inputs[start : start + group.size]
            if len(values) == 1 and not group.is_tuple:
                made.append(Parameter(self.define(values[0], hints[start])))
            else:
                whole = self.names.fresh(group.name)
                made.append(Parameter(whole, stars=group.stars))
                names = [self.define(v, hints[start + i]) for i, v in enumerate(values)]
                if names:
                    unpack.append((names, whole))
            start += group.size
        for names, whole in unpack:
            self.unpack(names, whole)
        self.read_dimensions(block.inputs)
        return tuple(made)

    def unpack(self, names: Sequence[str], whole: str) -> None:
        """Write a statement that gives the values of a tuple names."""
        self.is_long = self.is_long or len(names) >= MIN_WHOLE
        self.lines.append(f"{unpacked(names)} = {whole}")

    def read_dimensions(self, values: Sequence[Value]) -> None:
        """Read symbolic dimensions from the shapes of arguments, where they are used."""
        dims = self.lifter.imports.dims
        if dims:
            known = [value for value in values if value in self.env]
            read = readings(known, self.env, dims, self.lifter.spell)
            self.dimensions = len(self.lines), list(read)

    def returns(self, text: str) -> None:
        """Write the return statement."""
        if text:
            self.lines.append(f"return {text}")
        start, read = self.dimensions
        for name, line in reversed(read):  # one may need those before it
            if mentions(self.lines[start:], name):
                self.lines.insert(start, line)
        if self.lifter.is_deep:
            return
        if self.lifter.is_folding:
            known = self.env.values()
            lines = without_repetition(self.lines, self.made, known, self.names.fresh)
            self.is_long = self.is_long or len(lines) < len(self.lines)
            self.lines = folded(lines, self.made)
        if self.is_long:
            self.lines = kept_whole(self.lines, self.names.fresh, self.depth)


def _closed_over_together(block: Block) -> dict[Value, set[Value]]:
    """Pair each constant with those that one equation has beside it.

    JAX knows arrays that a function closes over by their identity, so that two which
    are equal are two operands.
    """
    constants = {value for value, _ in block.constants}
    beside: dict[Value, set[Value]] = {}
    if len(constants) < 2:
        return beside
    for eqn in block.equations:
        if eqn.name in _CLOSING:
            closed_over = constants.intersection(eqn.operands)
            for value in closed_over:
                beside.setdefault(value, set()).update(closed_over - {value})
    return beside


@optional(gives(None))
def origin_of(eqn: Equation, is_close: bool) -> tuple[str, bool] | None:
    """Return what an equation comes from, and whether it is of a backward pass.

    Args:
      is_close: Whether a part of a long statement is wanted.
    """
    quote = closely_quoted if is_close else quoted
    made = jaxapi.origin(eqn.source_info)
    return made and (quote(made.code, made.lasti), made.is_backward)


@optional(gives(""))
def types_of(eqn: Equation) -> str:
    """Return the types of the results of an equation."""
    return ", ".join(jaxapi.short_type(aval) for aval in eqn.result_avals)


def plain_results(block: Block) -> Callable[[Frame], str]:
    """Return the outputs of a block: nothing, one value or a tuple."""
    return lambda frame: ", ".join(frame.texts(block.outputs))


def in_plain_results(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; its results are as `plain_results` writes them."""
    results = function(*args)
    return results[0] if len(results) == 1 else tuple(results)


def module_function(
    lifter: Lifter,
    block: Block,
    hint: str,
    build: Callable[[Frame], tuple[Parameters, list[str]]],
    *,
    key: Any = (),
    decorators: Callable[[str], list[str]] = lambda name: [],
) -> str:
    """Print a block as a function of the module, once; return its name.

    Args:
      lifter: The module.
      block: The sub-program.
      hint: What to call it.
      build: Writes the body into a frame; returns parameters and decorators.
      key: Distinguishes different prints of the same block.
      decorators: Decorators, given the function's name.
    """
    known = lifter.named.get((id(block), hint, key))
    if known is not None:
        return known
    frame = Frame(lifter, Scope(lifter.scope), {})
    parameters, extra = build(frame)
    text_key = (hint, parameters, tuple(frame.lines), tuple(extra), key)
    name = lifter.named.get(text_key)
    if name is None:
        name = lifter.scope.fresh_global(identifier(hint, "function"))
        lifter.functions.append(
            Function(name, parameters, frame.lines, [*decorators(name), *extra])
        )
        lifter.named[text_key] = name
    lifter.named[id(block), hint, key] = name
    return name
