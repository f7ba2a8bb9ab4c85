"""What is known to only compute: modules, names, attributes, statements.

Everything else is listed by `static_check`. Names that are listed although they lie in
a module that computes are in `DENIED`.
"""

from __future__ import annotations

import ast
import cmath
import itertools
import math
import operator

import jax
import numpy as np

from untrace import jaxapi
from untrace.jaxapi import written

MODULES: frozenset[str] = frozenset(
    {
        *(f"jax{m and '.' + m}" for m in ("", "lax", "lax.linalg", "nn", "random")),
        *(f"jax.numpy{m}" for m in ("", ".linalg", ".fft")),
        *(f"jax.{m}" for m in ("ad_checkpoint", "core", "debug", "dtypes", "errors")),
        *(
            f"jax.{m}"
            for m in ("custom_batching", "custom_derivatives", "image", "ops")
        ),
        *(f"jax.{m}" for m in ("memory", "ref", "sharding", "tree", "tree_util")),
        *(f"jax.scipy.{m}" for m in ("cluster.vq", "fft", "integrate", "interpolate")),
        *(f"jax.scipy.{m}" for m in ("linalg", "ndimage", "optimize", "signal")),
        *(f"jax.scipy.{m}" for m in ("sparse.linalg", "spatial.transform", "special")),
        "jax.scipy.stats",
        "jax.nn.initializers",
        written.PRIMITIVES,
        *(f"jax.experimental.{m}" for m in ("checkify", "compute_on", "layout")),
        *(f"jax.experimental.{m}" for m in ("pallas", "pallas.tpu", "pallas.triton")),
        *(f"jax.experimental.{m}" for m in ("shard_map", "sparse", "xla_metadata")),
        *(f"numpy{m}" for m in ("", ".linalg", ".fft", ".random")),
    }
)
"""Parts of JAX and NumPy, of which all public names compute, but for `DENIED`."""

_FILES = frozenset(
    {
        *("DataSource", "bmat", "deprecate", "fromfile", "fromregex", "genfromtxt"),
        *("get_include", "info", "load", "loadtxt", "lookfor", "memmap", "mafromtxt"),
        *("ndfromtxt", "open_memmap", "recfromcsv", "recfromtxt", "safe_eval", "save"),
        *("savetxt", "savez", "savez_compressed", "seterrcall", "show_config"),
        *(
            "show_runtime",
            "source",
            "test",
            "who",
            "set_string_function",
            "from_dlpack",
        ),
    }
)

DENIED: dict[str, frozenset[str]] = {
    "numpy": _FILES,
    "jax.numpy": _FILES,
    "jax": frozenset({"config", "pure_callback", "print_environment_info"}),
    "jax.experimental.sparse": frozenset({"test_util"}),
    written.PRIMITIVES: frozenset(
        {
            *("pure_callback_p", "io_callback_p", "debug_callback_p", "ffi_call_p"),
            *("python_callback_p", "outside_call_p", "custom_partitioning_p"),
        }
    ),
    "jax.debug": frozenset({n for n in vars(jax.debug) if n != "print"}),
}
"""Names that do more than compute, by module."""

_CONFIG = ".".join(written.CONFIG)

JAX_PRIVATE: frozenset[str] = frozenset(
    {
        *map(".".join, (written.COMPUTE_CONTEXT, written.LAYOUT_CONTEXT)),
        *map(".".join, (written.AS_ARRAY, written.CONFIG)),
        *(f"{_CONFIG}.{name}" for name in jaxapi.PRIVATE_MANAGERS),
        f"{jaxapi.PRNGS_MODULE}.prngs",
        f"{written.COTANGENTS_HOME}.add_jaxvals",
    }
)
"""Names that untrace writes where JAX has no public ones: private, or of other modules."""

JAX_MODULES = frozenset({_CONFIG})

SETTINGS: frozenset[str] = frozenset({"jax_enable_x64"})
"""Settings that a file may change."""

STANDARD: dict[str, frozenset[str]] = {
    "math": frozenset(dir(math)),
    "cmath": frozenset(dir(cmath)),
    "itertools": frozenset(dir(itertools)),
    "operator": frozenset(operator.__all__) - {"attrgetter", "methodcaller"},
    "functools": frozenset({"partial", "reduce", "wraps", "cache", "lru_cache"}),
    "collections": frozenset(
        {"OrderedDict", "namedtuple", "deque", "defaultdict", "Counter"}
    ),
    "dataclasses": frozenset({"dataclass", "field", "replace"}),
    "contextlib": frozenset({"contextmanager", "nullcontext", "ExitStack"}),
    "enum": frozenset({"Enum", "IntEnum"}),
    "typing": frozenset({"Any", "NamedTuple", "Optional", "Union", "Callable"}),
    "__future__": frozenset({"annotations"}),
}
"""The standard mathematics, and the names of it that compute."""

BUILTINS: frozenset[str] = frozenset(
    {
        *("None", "True", "False", "Ellipsis", "NotImplemented", "__name__"),
        *(
            "abs",
            "all",
            "any",
            "bool",
            "bytes",
            "complex",
            "dict",
            "divmod",
            "enumerate",
        ),
        *("filter", "float", "frozenset", "int", "isinstance", "iter", "len", "list"),
        *("map", "max", "min", "next", "pow", "print", "range", "reversed", "round"),
        *("set", "slice", "sorted", "str", "sum", "tuple", "zip"),
        *("ArithmeticError", "AssertionError", "Exception", "FileNotFoundError"),
        *("FloatingPointError", "IndexError", "KeyError", "NotImplementedError"),
        *("OverflowError", "RuntimeError", "StopIteration", "TypeError", "ValueError"),
        "ZeroDivisionError",
    }
)

DENIED_ATTRIBUTES: frozenset[str] = frozenset(
    {
        *("tofile", "dump", "dumps", "ctypes", "setflags", "format", "format_map"),
        *("unsafe_buffer_pointer", "mro", "setfield", "throw"),
        *("gi_frame", "gi_code", "cr_frame", "cr_code", "ag_frame", "ag_code"),
        *("f_back", "f_builtins", "f_code", "f_globals", "f_locals", "tb_frame"),
        *("tb_next", "func_globals", "func_code", "co_code", "load_module"),
    }
)
"""Attributes of values that lead out of the computation, whoever defines them."""

_VALUES = (jax.Array, np.ndarray, np.random.Generator, np.dtype, dict, list, tuple)
_OTHER_VALUES = (set, str, int, float, complex, slice, BaseException)

ATTRIBUTES: frozenset[str] = (
    frozenset(
        {
            *(n for kind in _VALUES for n in dir(kind) if not n.startswith("_")),
            *(n for kind in _OTHER_VALUES for n in dir(kind) if not n.startswith("_")),
            *("_replace", "_fields", "_asdict"),  # of NamedTuples
            *("defjvp", "defjvps", "defvjp", "def_vmap", "bind", "at", "get", "set"),
            *("add", "apply", "divide", "min", "mul", "multiply", "power", "subtract"),
            *("perturbed", "value", "primal", "tangent", "types", "eval_shape", "ref"),
            *("eps", "tiny"),  # of `jnp.finfo`
        }
    )
    - DENIED_ATTRIBUTES
)
"""Attributes of arrays, containers and of what JAX makes of functions."""

_KINDS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

NODES: frozenset[str] = frozenset(
    {
        *("Module", "FunctionDef", "ClassDef", "Return", "Assign", "AugAssign"),
        *("AnnAssign", "For", "While", "If", "With", "Raise", "Try", "Assert", "Expr"),
        *("Import", "ImportFrom", "Pass", "Break", "Continue", "BoolOp", "NamedExpr"),
        *("BinOp", "UnaryOp", "Lambda", "IfExp", "Dict", "Set", "ListComp", "SetComp"),
        *("DictComp", "GeneratorExp", "Yield", "Compare", "Call", "FormattedValue"),
        *("JoinedStr", "Constant", "Attribute", "Subscript", "Starred", "Name", "List"),
        *("Tuple", "Slice", "arguments", "arg", "keyword", "alias", "withitem"),
        *("comprehension", "ExceptHandler", "Load", "Store", "Nonlocal"),
        *(cls.__name__ for base in _KINDS for cls in base.__subclasses__()),
    }
)
"""Statements and expressions that are looked into."""
