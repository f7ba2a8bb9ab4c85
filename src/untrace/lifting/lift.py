"""Lift a captured computation to a `Listing`: every part of the module, as text.

The main function keeps the user's signature: its pytrees are taken apart where leaves
are used and put together in the return statement. A program that is one call of a
jitted function, with the same arguments and results, becomes that function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured, Leaf, Node, Tree
from untrace.capture.trees import (
    accessors,
    enums,
    holds_text,
    replaced_key,
    replaced_nodes,
)
from untrace.ir import Block, Equation, Value, from_jaxpr
from untrace.jaxapi.helpers import HELPERS
from untrace.lifting.blocks import calls
from untrace.lifting.blocks.lost import LostRules
from untrace.lifting.constructing import construct
from untrace.lifting.contexts import ambient_managers, tracing_context
from untrace.lifting.dimensions import name_dimensions
from untrace.lifting.examples import example_lines
from untrace.lifting.frame import Frame
from untrace.lifting.heads import Parameter, Parameters
from untrace.lifting.lifter import Lifter
from untrace.lifting.lines.function_lines import Made
from untrace.lifting.printing import Function
from untrace.lifting.steps import Steps
from untrace.optional import gives, optional
from untrace.options import Options
from untrace.progress import expect
from untrace.syntax.names import Scope, identifier

# Importing them registers their printing functions.
PRINTERS = [
    "batching_rules",
    "callbacks",
    "casts",
    "control",
    "derivatives",
    "foreign",
    "identities",
    "kernel_bodies",
    "kernels",
    "loops",
    "reductions",
    "roots",
    "sharded",
    "solves",
    "state",
]
for _name in PRINTERS:
    importlib.import_module(f"untrace.lifting.blocks.{_name}")


@dataclass(slots=True)
class Listing:
    """The parts of a generated module."""

    lifter: Lifter
    block: Block
    classes: dict[Any, tuple[str, list[str]]]
    main: Function
    example: list[str]
    context: list[str]
    is_runnable: bool = True
    is_jittable: bool = True

    @property
    def functions(self) -> list[Function]:
        """All functions in their order, the main one last."""
        return [*self.lifter.functions, self.main]

    def helper_lines(self) -> list[str]:
        """Return the sources of the helpers that are used."""
        lines: list[str] = []
        for key in self.lifter.helpers:
            lines += ["", "", *HELPERS[key].source.rstrip("\n").split("\n")]
        return lines


def lift(
    captured: Captured,
    options: Options,
    steps: Steps | None = None,
    block: Block | None = None,
    lost: LostRules | None = None,
    hints: Mapping[Value, str] | None = None,
    rewrite: Callable[[Block], Block] | None = None,
) -> Listing:
    """Write the statements of a captured computation.

    Args:
      captured: The computation and its signature.
      options: What the user asked for.
      steps: Which equations to print lower than usual.
      block: The program, if it was read before.
      lost: Derivative rules that JAX itself cannot use.
      hints: Names for results.
      rewrite: What to do to programs that are read on the way, such as rules.
    """
    block = block or from_jaxpr(captured.jaxpr)
    lifter = Lifter(options, steps, lost, captured.rule_cases)
    lifter.steps.written.clear()
    lifter.hints = dict(hints or {})
    lifter.is_folding = hints is not None and not options.types
    lifter.rewrite = rewrite or lifter.rewrite
    lifter.n_equations, lifter.shared = count_blocks(block)
    expect(lifter.n_equations)
    lifter.imports.keys(key_enums(captured))
    # Arguments keep their names, which the caller may use.
    lifter.scope.reserve(parameter.name for parameter in captured.parameters)
    name = lifter.scope.fresh_global(
        identifier(options.name or captured.name, "function")
    )
    for note in (*captured.notes, *lifter.steps.notes()):
        lifter.note(note)
    lifter.imports.dims = name_dimensions(block, lifter.scope)
    classes = _classes(captured, lifter)
    context = tracing_context(ambient_managers(lifter), lifter)
    main = _main(captured, block, name, lifter, classes)
    example = example_lines(
        captured,
        block,
        lifter,
        lambda tree, texts, shortening: construct(
            tree, texts, lifter, classes, shortening=shortening
        ),
    )
    is_runnable = note_devices(lifter, block)
    is_jittable = not holds_text(captured.result)
    return Listing(
        lifter, block, classes, main, example, context, is_runnable, is_jittable
    )


def key_enums(captured: Captured) -> Iterator[type]:
    """Yield the enums whose members are keys in arguments or results."""
    for tree in [*(p.tree for p in captured.parameters), captured.result]:
        yield from enums(tree)


def note_devices(lifter: Lifter, block: Block) -> bool:
    """Note what a process must have; tell whether the program can run and not only trace."""
    devices = [*lifter.imports.devices, *_mapped_over(block)]
    if not devices and any(
        jaxapi.is_abstract_mesh(value) for value, _ in lifter.imports.defined()
    ):
        lifter.note("Its mesh is abstract: it can be traced and lowered, but not run.")
        return False
    n_devices = jaxapi.n_devices(devices)
    if n_devices == 1:
        return True
    note = f"Needs {n_devices} devices."
    if jaxapi.is_simulated(devices):
        flag = f"--xla_force_host_platform_device_count={n_devices}"
        note += f" On a CPU, simulate them: XLA_FLAGS={flag}"
    lifter.note(note)
    return True


def count_blocks(block: Block) -> tuple[int, set[int]]:
    """Walk a program and its sub-programs, each once.

    Returns:
      The number of equations, and the sub-programs that occur more than once (by `id`).
    """
    shared: set[int] = set()
    return sum(len(one.equations) for one in _blocks(block, shared)), shared


def _mapped_over(block: Block) -> Iterator[Any]:
    """Yield the devices that functions are mapped over, `jax.pmap` among these."""
    for one in _blocks(block, set()):
        for eqn in one.equations:
            if eqn.name == "shard_map":
                yield from jaxapi.devices_of(eqn.params["mesh"])


def _blocks(block: Block, shared: set[int]) -> Iterator[Block]:
    """Yield a program and its sub-programs; note the `id` of those met again in `shared`."""
    seen: set[int] = set()
    stack = [block]
    while stack:
        one = stack.pop()
        yield one
        for eqn in one.equations:
            for param in eqn.params.values():
                kind = type(param)
                if kind is not Block and kind is not tuple:
                    continue
                items: Any = param if kind is tuple else (param,)
                for item in items:
                    if type(item) is not Block:
                        continue
                    if id(item) in seen:
                        shared.add(id(item))
                    else:
                        seen.add(id(item))
                        stack.append(item)


def _main(
    captured: Captured, block: Block, name: str, lifter: Lifter, classes: dict[Any, Any]
) -> Function:
    frame = Frame(lifter, Scope(lifter.scope), {}, ambient=jaxapi.ambient_context())
    body, decorators = outermost_jit(block, captured, name, frame)
    parameters = _open_arguments(captured, body, frame)
    frame.body(body)
    texts = frame.texts(body.outputs)
    result = construct(captured.result, texts, lifter, classes, top=True)
    frame.returns(result)
    return Function(name, parameters, frame.lines, decorators)


@optional(lambda block, captured, name, frame: (block, []))
def outermost_jit(
    block: Block, captured: Captured, name: str, frame: Frame
) -> tuple[Block, list[str]]:
    """Return the program inside the jit call that is all of it, and decorators for that."""
    call = _whole_call(block, captured)
    if call is None or call.params["name"] != captured.name:
        return block, []
    in_sizes = [_n_leaves(parameter.tree) for parameter in captured.parameters]
    options = calls.jit_options(call, frame, in_sizes, _result_sizes(captured.result))
    if options and any(p.kind is p.kind.KEYWORD_ONLY for p in captured.parameters):
        return block, []  # they count positional arguments only
    if options is None:
        return block, []
    decorators = calls.jit_decorators(name, captured.name, options, frame.lifter)
    return call.params["jaxpr"], decorators


def _n_leaves(tree: Tree) -> int:
    return 1 if isinstance(tree, Leaf) else sum(map(_n_leaves, tree.children))


def _result_sizes(tree: Tree) -> list[int]:
    """Count the arrays in each item of a tuple of results, or in the only result."""
    if isinstance(tree, Leaf) or tree.kind not in ("tuple", "list"):
        return [_n_leaves(tree)]
    return [_n_leaves(child) for child in tree.children]


def _whole_call(block: Block, captured: Captured) -> Equation | None:
    """Return the only equation if it is a jit call of exactly the program's inputs."""
    if len(block.equations) != 1 or block.constants:
        return None
    eqn = block.equations[0]
    same = (
        eqn.name == "jit"
        and eqn.operands == block.inputs
        and eqn.results == block.outputs
    )
    return eqn if same and len(set(block.outputs)) == len(block.outputs) else None


def _open_arguments(captured: Captured, body: Block, frame: Frame) -> Parameters:
    """Name parameters, write the access to their leaves; return the parameters."""
    shown = [frame.names.fresh(one.name) for one in captured.parameters]
    kinds = [one.kind is one.kind.KEYWORD_ONLY for one in captured.parameters]
    open_trees([p.tree for p in captured.parameters], shown, body, frame)
    frame.read_dimensions(body.inputs)
    pairs = zip(shown, kinds)
    return tuple([Parameter(name, is_keyword=only) for name, only in pairs])


def open_trees(
    trees: Sequence[Tree], roots: Sequence[str], body: Block, frame: Frame
) -> None:
    """Write the access to the leaves of trees, which are the inputs of a block."""
    used = _used(body)
    for tree, root in zip(trees, roots):
        if isinstance(tree, Leaf):
            frame.env[body.inputs[tree.index]] = root
        elif not unpack_short(tree, root, body, frame):
            _access(tree, root, body, used, frame)


@optional(gives(False))
def unpack_short(tree: Node, root: str, body: Block, frame: Frame) -> bool:
    """Unpack a short tuple of arrays in one statement."""
    flat = all(isinstance(child, Leaf) for child in tree.children)
    if (
        tree.kind not in ("tuple", "list")
        or not flat
        or not 1 <= len(tree.children) <= 6
    ):
        return False
    values = [
        body.inputs[child.index] for child in tree.children if isinstance(child, Leaf)
    ]
    names = [frame.define(value, f"{root}_{i}") for i, value in enumerate(values)]
    comma = "," if len(names) == 1 else ""
    target = f"({names[0]},)" if comma else ", ".join(names)
    frame.lines.append(f"{target} = {root}")
    return True


def _access(tree: Tree, root: str, body: Block, used: set[Value], frame: Frame) -> None:
    found = list(accessors(tree, root))
    last = [words[-1] for _, _, words in found]
    for index, text, words in found:
        value = body.inputs[index]
        if value not in used:
            frame.env[value] = text
            continue
        short = (
            words[-1]
            if not words[-1].isdigit() and last.count(words[-1]) == 1
            else None
        )
        hint = short or "_".join(words[-2:] if len(words) > 1 else (root, *words))
        name = frame.define(value, identifier(hint, root))
        frame.made[name] = Made(is_read=True)
        frame.lines.append(f"{name} = {text}")


def _used(body: Block) -> set[Value]:
    used: set[Any] = set()
    for eqn in body.equations:
        used.update(eqn.operands)
    return used


# ---- trees as text -----------------------------------------------------------------


def _origin(cls: Any) -> str:
    """Say what a class stands for; a jaxpr names fields alone."""
    if not cls.__module__:
        return "a class of which the jaxpr names only the fields"
    return f"{cls.__module__}.{cls.__qualname__}, whose arrays it holds"


def _classes(captured: Captured, lifter: Lifter) -> dict[Any, tuple[str, list[str]]]:
    """Define a NamedTuple for every class that the file cannot import or rebuild."""
    classes: dict[Any, tuple[str, list[str]]] = {}
    for tree in [*(p.tree for p in captured.parameters), captured.result]:
        for node in replaced_nodes(tree):
            if replaced_key(node) in classes:
                continue
            name = lifter.scope.fresh_global(identifier(node.cls.__name__, "Tree"))
            named_tuple = lifter.imports.attribute("typing", "NamedTuple")
            lifter.note(f"`{name}` stands for {_origin(node.cls)}.")
            any_text = lifter.imports.attribute("typing", "Any") if node.keys else ""
            fields = [f"    {key}: {any_text}" for key in node.keys] or ["    pass"]
            lines = [f"class {name}({named_tuple}):", *fields]
            classes[replaced_key(node)] = (name, lines)
    return classes
