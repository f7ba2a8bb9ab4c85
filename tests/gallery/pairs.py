"""The pairs of the gallery, and how each is made.

What comes out is kept in this folder, and the pages in `docs/gallery` are made of it.
"""

from __future__ import annotations

import ast
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import untrace
from untrace.cli.calls import evaluate

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
EXAMPLES = ROOT / "examples" / "gallery"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A program and what comes out of it.

    Attributes:
      name: Of its page.
      title: Of its page.
      text: What is to be seen, in a few sentences.
      path: The file that goes in.
      until: The first name in it that is not shown, with all that follows.
      hidden: Other names whose definitions are not shown.
      command: What a reader does to get the same.
      make: Makes what comes out: the text of a file.
      needs: The packages that it takes beside JAX.
      seconds: About how long it takes, where that is long.
      golden: The golden file that holds the same functions, if there is one.
    """

    name: str
    title: str
    text: str
    path: Path
    command: str
    make: Callable[[], str]
    until: str | None = None
    hidden: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    seconds: int = 0
    golden: str | None = None

    @property
    def stored(self) -> Path:
        """Where what came out is kept."""
        return FOLDER / f"{self.name}.txt"

    def before(self) -> str:
        """What is shown of the file that goes in."""
        text = self.path.read_text()
        if self.path.suffix != ".py":
            return text.rstrip() + "\n"
        body = ast.parse(text).body
        rest = [i for i, node in enumerate(body) if self.until in _defined(node)]
        lines = text.splitlines()
        if rest:
            lines = lines[: body[rest[0]].lineno - 1]
        for node in reversed(body[: rest[0]] if rest else body):
            if _is_docstring(node) or {*_defined(node)} & {*self.hidden}:
                del lines[node.lineno - 1 : node.end_lineno]
        return "\n".join(lines).strip() + "\n"

    def after(self) -> str:
        """What is shown of the file that comes out: without its inputs."""
        return shown(self.make())


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


WEIGHTS = ("def load_arrays(", "CONSTANTS = load_arrays(", "def load_weights(")
INPUTS = "def example_args("


def shown(text: str) -> str:
    """Leave out what every file has: its inputs, its weights, its fingerprint."""
    header, body = text.removeprefix('"""').split('"""\n', 1)
    header = header.split("\n\nFingerprint of ")[0].rstrip()
    head, *blocks = body.split("\n\n\n")
    blocks = blocks[: next(i for i, b in enumerate(blocks) if b.startswith(INPUTS))]
    if any(block.startswith(WEIGHTS) for block in blocks):
        blocks = [block for block in blocks if not block.startswith(WEIGHTS)]
        only = ("import hashlib", "import json", "import pathlib")
        lines = [line for line in head.splitlines() if line not in only]
        head = "\n" + "\n".join(lines).strip()
    return f'"""{header}\n"""\n' + "\n\n\n".join([head, *blocks]) + "\n"


# ---- ways to make one ------------------------------------------------------------------


def source_of(function: Any, args: Any, kwargs: Any, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", untrace.UnverifiedWarning)
        return str(untrace.source(function, **options)(*args, **kwargs))


def call(path: Path, text: str, **options: Any) -> Callable[[], str]:
    """As `untrace show FILE 'CALL'` does."""
    return lambda: source_of(*evaluate(str(path), text), **options)


def text_file(path: Path) -> Callable[[], str]:
    return lambda: str(untrace.source(path, level="api"))


def readability(name: str) -> Callable[[], str]:
    def make() -> str:
        module = importlib.import_module(f"benchmarks.readability.programs.{name}")
        return source_of(*module.program(), {})

    return make


def reduction(name: str) -> Callable[[], str]:
    def make() -> str:
        module = importlib.import_module(f"benchmarks.reduce.cases.{name}")
        reduce = untrace.reduce(module.PROGRAM, keep=module.KEEP)
        return str(reduce(*module.arguments()).source)

    return make


def _of_readability(name: str, program: str, **facts: Any) -> Pair:
    path = ROOT / "benchmarks" / "readability" / "programs" / f"{program}.py"
    made = readability(program)
    return Pair(
        name=name, path=path, make=made, until="program", golden=program, **facts
    )


def _of_example(name: str, file: str, called: str, **facts: Any) -> Pair:
    options = facts.pop("options", {})
    path = EXAMPLES / file
    make = call(path, called, **options)
    flags = "".join(f" --{key} {value}" for key, value in options.items())
    command = f"untrace show {file} '{called}'{flags}"
    return Pair(name=name, path=path, make=make, command=command, **facts)


PAIRS = [
    _of_example(
        "decode",
        "decode.py",
        "generate(params, caches, token)",
        until="init_layer",
        title="Decoding with a language model",
        text="Plain JAX comes back as itself: functions, names, the loop over the layers, "
        "the cache that is written at a position, the scan. Sizes are numbers by then.",
    ),
    _of_readability(
        "flax",
        "flax_adam",
        title="A training step of flax and optax",
        command="untrace.source(train_step)(params, opt_state, x, labels)",
        text="Both frameworks are gone; their layers are functions of their parameters.",
        needs=("flax", "optax"),
    ),
    _of_readability(
        "equinox",
        "equinox_gru",
        title="A network of equinox",
        command="untrace.source(predict)(model, sequences)",
        text="Modules become NamedTuples of their arrays, methods become functions.",
        needs=("equinox",),
    ),
    _of_readability(
        "diffrax",
        "diffrax_steps",
        title="Steps of a diffrax solver",
        command="untrace.source(fit_step)(params, start, measured)",
        text="What a symplectic solver does in a step is one function of eight lines.",
        needs=("diffrax",),
    ),
    _of_example(
        "nuts",
        "nuts.py",
        "sampler.step(key, state)",
        until="key",
        title="The No-U-Turn sampler of blackjax",
        text="All that a step of the sampler does, in one file that needs JAX alone: "
        "trees that double, checks for turns, proposals by their weights.",
        needs=("blackjax",),
        seconds=13,
    ),
    _of_readability(
        "shard_map",
        "sharded_step",
        title="A training step on a mesh",
        command="untrace.source(train_step)(params, x, y)",
        text="The mesh, the specs and the collectives of `jax.shard_map` are kept.",
    ),
    _of_example(
        "pallas",
        "softmax_kernel.py",
        "softmax(x)",
        until="x",
        title="A kernel of Pallas",
        text="The kernel, its calls and its block specs come back as they were written.",
    ),
    _of_example(
        "gradient",
        "gradient.py",
        "gradient(params, x)",
        until="params",
        options={"expand": "grad"},
        title="A gradient, opened",
        text="What `jax.grad` makes of a function, under the lines that it comes from.",
    ),
    Pair(
        name="crash",
        title="A crash, reduced",
        text="The compiler's code crashes on this program with a segmentation fault "
        "([the report](https://github.com/jax-ml/jax/issues/40412)). What is left of it "
        "crashes in the same way. (`solve_adaptively` is an adaptive integrator.)",
        path=ROOT / "benchmarks" / "reduce" / "cases" / "rank_seven_reduction.py",
        until="PROGRAM",
        hidden=("ORIGIN", "KEEP", "VERSIONS", "MINIMAL"),
        command="untrace.reduce(program, keep=\"crashes(signal='SIGSEGV')\")(p, y, bessel)",
        make=reduction("rank_seven_reduction"),
        seconds=30,
    ),
    _of_example(
        "torch",
        "torch_model.py",
        "Classifier().eval()(tokens)",
        until="tokens",
        title="A model of PyTorch",
        text="Parameters are a nested dict by the paths of the modules; their values lie "
        "beside the file. The result is compared with torch by its values and gradients.",
        needs=("torch",),
    ),
    Pair(
        name="jaxpr",
        title="A jaxpr from a bug report",
        text="What stands in a text as JAX printed it is a program again.",
        path=EXAMPLES / "issue.txt",
        command="untrace show issue.txt --level api",
        make=text_file(EXAMPLES / "issue.txt"),
    ),
    Pair(
        name="stablehlo",
        title="A module of StableHLO",
        text="The loop is a scan again, and the result is the dict that it was.",
        path=EXAMPLES / "smooth.mlir",
        command="untrace show smooth.mlir --level api",
        make=text_file(EXAMPLES / "smooth.mlir"),
    ),
]
"""In the order of the gallery."""
