"""Statements for the end of a saved file, which show its failure when it is run."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import all_equations, sub_blocks
from untrace.jaxapi import written
from untrace.reduction.program import Program
from untrace.syntax.text import quote

_MOVED = """\
args = example_args()
inexact = {
    name: jnp.asarray(value)
    for name, value in args.items()
    if jnp.issubdtype(jnp.result_type(value), jnp.inexact)
}
"""
_GRAD = """\

def total(inexact, args):
    leaves = jax.tree.leaves(NAME(**args | inexact))
    inexact_leaves = [x for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]
    return sum((jnp.sum(jnp.real(x)).astype(float) for x in inexact_leaves), 0.0)

outputs = JIT(jax.grad(total))(inexact, args)
"""
_JVP = """\

def tangents(inexact, args):
    ones = jax.tree.map(jnp.ones_like, inexact)
    return jax.jvp(lambda moved: NAME(**args | moved), (inexact,), (ones,))

outputs = JIT(tangents)(inexact, args)
"""
_VMAP = """\
args = jax.tree.map(lambda x: jnp.stack([x, x]), example_args())
outputs = JIT(jax.vmap(lambda args: NAME(**args)))(args)
"""
_PLAIN = "outputs = JIT(NAME)(**example_args())\n"
_TEMPLATES = {
    None: _PLAIN,
    "grad": _MOVED + _GRAD,
    "jvp": _MOVED + _JVP,
    "vmap": _VMAP,
}
_WIDE = """\
def widened(x):
    is_narrow = jnp.result_type(x) == jnp.float32
    return jnp.asarray(x, jnp.float64) if is_narrow else x

"""
_WIDENED = "jax.tree.map(widened, example_args())"
_IN_64_BITS = "with jax.enable_x64(True):"
_JITS = ("jit", "pjit")
_OP_BY_OP = """\
def op_by_op(function):
    def run(*args, **kwargs):
        jaxpr = jax.make_jaxpr(function)(*args, **kwargs)
        with jax.disable_jit():
            return jaxpr_as_fun(jaxpr)(*jax.tree.leaves((args, kwargs)))

    return run

"""
_EAGER_IMPORT = "from {} import {}".format(*written.EVALUATION)
_LEAVES = "outputs = jax.tree.leaves(jax.block_until_ready(outputs))"
_PLAIN_OUTPUTS = """\
outputs = [
    jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    for x in outputs
    if x.dtype != jax.dtypes.float0
]
"""
_PRINTED_OTHERWISE = ("get", "swap", "addupdate")
_CHECK = """\
command = COMMAND
# It is given the program alone: it is not to find its own words.
here = pathlib.Path(__file__)
text = here.read_text(encoding="utf-8").split('"' * 3, 2)[-1]
call = "if __name__ == '__main__':\\n    print(NAME(**example_args()))\\n"
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, here.name)
    path.write_text(text.split("if __name__ == ")[0] + call, encoding="utf-8")
    for arrays in here.parent.glob(f"{here.stem}.safetensors"):
        shutil.copy(arrays, folder)
    command = command.replace("{file}", shlex.quote(str(path)))
    status = subprocess.run(command, shell=True).returncode
sys.exit(status == 0)  # it succeeds: the failure is there
"""
_PRIMITIVES = """\
def primitives(jaxpr):
    found = set()
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found.add(eqn.primitive.name)
        for param in jax.tree.leaves(list(eqn.params.values())):
            if hasattr(getattr(param, "jaxpr", param), "eqns"):
                found |= primitives(param)
    return found

"""
IMPORTS = ("import jax", "import jax.numpy as jnp")
_ARRAYS = "jax.device_put(example_args())"
"""Without jit, NumPy would compute what is written with operators, in its own way."""
ARGS = f"args = {_ARRAYS}"


def call_lines(name: str, under: str | None, jit: str = "jax.jit") -> list[str]:
    """Write statements that run the program and leave its `outputs`, a list of arrays."""
    return [*_called(name, under, jit), _LEAVES]


def waiting_lines(name: str, under: str | None) -> list[str]:
    """Write statements that run the program and wait until it is done."""
    *lines, call = _called(name, under, "jax.jit")
    return [*lines, f"jax.block_until_ready({call.removeprefix('outputs = ')})"]


def _called(name: str, under: str | None, jit: str) -> list[str]:
    """Write statements of which the last assigns the `outputs`."""
    return _TEMPLATES[under].replace("NAME", name).replace("JIT", jit).splitlines()


def is_single(program: Program | None, under: str | None = None) -> bool:
    """Whether one real output is left of a program under a transformation."""
    if program is None or len(program.block.outputs) != 1 or under == "jvp":
        return False
    made = program.block.outputs
    if under == "grad":  # an output for each input that has a derivative
        kinds = ("floating", "complex")
        inputs = program.block.inputs
        made = [v for v in inputs if jaxapi.dtype_kind(v.aval.dtype) in kinds]
    return len(made) == 1 and _is_real(made[0].aval)


def is_of_calls(program: Program) -> bool:
    """Whether there are no loops and branches, which without jit run in another way."""
    eqns = all_equations(program.block)
    return all(eqn.name in _JITS or not any(sub_blocks(eqn)) for eqn in eqns)


def _is_real(aval: Any) -> bool:
    return jaxapi.dtype_kind(aval.dtype) == "floating"


def output_lines(name: str, under: str | None, program: Program | None) -> list[str]:
    """Write statements that run a program, for which `is_single`, and leave `x`."""
    if under is None:
        return [f"x = jax.jit({name})(**example_args())"]
    inputs = () if program is None else program.block.inputs
    if under == "grad" and len(inputs) == 1 and _is_real(inputs[0].aval):
        scalar = program is not None and not program.block.outputs[0].aval.shape
        value = f"{name}(x)" if scalar else f"{name}(x).sum()"
        return [
            "(x,) = example_args().values()",
            f"x = jax.jit(jax.grad({name if scalar else f'lambda x: {value}'}))(x)",
        ]
    return [*call_lines(name, under), "(x,) = outputs"]


def shown_lines(name: str, under: str | None, program: Program | None) -> list[str]:
    """Write statements that run a program and wait until it is done."""
    if not is_single(program, under):
        return call_lines(name, under)
    if under is None:
        return [f"print(jax.jit({name})(**example_args()))"]
    return [*output_lines(name, under, program), "print(x)"]


def shortest_comparison(
    name: str,
    sides: tuple[str, str],
    rtol: float,
    program: Program,
    wide: Sequence[str] = (),
    *,
    is_finite: bool = False,
) -> list[str]:
    """Write statements that show what a program with one output gives in two ways.

    Args:
      name: The function.
      sides: How it is run.
      rtol: Relative error that is none.
      program: The program: one of calls alone runs op by op as it is without jit.
      wide: Definitions of the function in 64 bits; without, its inputs are widened.
      is_finite: What differs is finite in both ways.
    """
    is_flat = is_of_calls(program)
    lines: list[str] = []
    if "eager" in sides and not is_flat:
        lines += [_EAGER_IMPORT, "", *_OP_BY_OP.splitlines()]
    are_narrow = all(v.aval.dtype == "float32" for v in program.block.inputs)
    if "float64" in sides and not wide and not are_narrow:
        lines += _WIDE.splitlines()
    if wide:
        made = f"jax.jit({name})(**example_args())"
        lines += ["def in_64_bits():", *indented([*wide, f"return {made}"]), ""]
    is_plain = "call" in sides or ("eager" in sides and is_flat)
    lines += [ARGS if is_plain else "args = example_args()"]
    given = "jax.tree.map(np.float64, args)" if are_narrow else _WIDENED
    widened = "in_64_bits()" if wide else f"jax.jit({name})(**{given})"
    ways = {
        "jit": ("", f"jax.jit({name})(**args)"),
        "call": ("", f"{name}(**args)"),
        "eager": ("with jax.disable_jit():", f"{name}(**args)"),
        "float64": (_IN_64_BITS, widened),
    }
    if not is_flat:
        ways["eager"] = ("", f"op_by_op({name})(**args)[0]")
    for variable, side in zip(("x", "y"), sides):
        context, made = ways[side]
        line = f"{variable} = np.asarray({made}).astype(float)"
        lines += [context, f"    {line}"] if context else [line]
    a, b = sides
    lines += [f'print("{a}:", x, "{b}:", y)']
    if is_finite and not program.block.outputs[0].aval.shape:
        return [*lines, *_numbers_differ(f"{a} and {b}", rtol)]
    return [
        *lines,
        *_same(rtol),
        f'assert is_same, f"{a} and {b} differ: {{told}}"',
    ]


def with_plain_outputs(lines: Sequence[str]) -> list[str]:
    """Show keys as numbers, and leave out the derivatives that integers do not have."""
    found: list[str] = []
    for line in lines:
        found.append(line)
        if line.strip() == _LEAVES:
            found += textwrap.indent(_PLAIN_OUTPUTS, line[: -len(_LEAVES)]).splitlines()
    return found


def contains_lines(
    name: str, patterns: Sequence[str], program: Program | None = None
) -> list[str]:
    """Write statements that look for primitives in the program, at any depth."""
    jaxpr = [f"jaxpr = jax.make_jaxpr({name})(**example_args())", "print(jaxpr)"]
    wanted = f"[{', '.join(map(quote, patterns))}]"
    if program is not None and _are_printed(patterns, program):
        return [
            *jaxpr,
            f"names, printed = {wanted}, str(jaxpr).replace('[', ' ')",
            'is_there = all(f" = {name} " in printed for name in names)',
            'assert not is_there, f"the program contains {names}"',
            'print("not all of them: the failure is not there")',
        ]
    return [
        *_PRIMITIVES.splitlines(),
        *jaxpr,
        f"patterns = {wanted}",
        "found = [fnmatch.filter(primitives(jaxpr), pattern) for pattern in patterns]",
        'assert not all(found), f"the program contains {found}"',
        'print("not all of them: the failure is not there")',
    ]


def _are_printed(names: Sequence[str], program: Program) -> bool:
    """Whether JAX prints equations with these names as it prints most, "a = name[] b"."""
    eqns = [eqn for eqn in all_equations(program.block) if eqn.name in names]
    return {eqn.name for eqn in eqns}.issuperset(names) and all(
        eqn.results and eqn.name not in _PRINTED_OTHERWISE for eqn in eqns
    )


def command_lines(name: str, command: str) -> list[str]:
    """Write statements that run a command on the file, with `--check`."""
    text = _CHECK.replace("NAME", name).replace("COMMAND", quote(command))
    check = text.splitlines()
    return [
        'if "--check" in sys.argv:',
        *indented(check),
        f"print(jax.jit({name})(**example_args()))",
    ]


def _env_text(env: dict[str, str]) -> str:
    items = [f"{quote(name)}: {quote(value)}" for name, value in env.items()]
    return f"{{{', '.join(items)}}}"


def combined_lines(
    parts: Sequence[Sequence[str]], envs: Sequence[dict[str, str]], formula: str
) -> list[str]:
    """Write statements that run parts, each in a process of its own, and combine them.

    Args:
      parts: The statements of each part; they end with a status other than 0 if it fails.
      envs: The environment variables of each.
      formula: What must be so of the list `fails`.
    """
    lines = ['part = os.environ.get("UNTRACE_PART", "")']
    for number, part in enumerate(parts):
        test = f"{'el' if number else ''}if part == {quote(str(number))}:"
        lines += [test, *indented(part)]
    return [
        *lines,
        "else:",
        f"    envs = [{', '.join(map(_env_text, envs))}]",
        "    fails = []",
        "    for number, env in enumerate(envs):",
        '        env = {**os.environ, **env, "UNTRACE_PART": str(number)}',
        "        command = [sys.executable, __file__, *sys.argv[1:]]",
        "        fails.append(subprocess.run(command, env=env).returncode != 0)",
        f"    assert not {formula}, f'the parts fail: {{fails}}'",
        '    print(f"the failure is not there: {fails}")',
    ]


def env_lines(env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """List imports, and the settings of the environment that must precede them."""
    if not env:
        return IMPORTS
    return ("import os", *(f"os.environ[{k!r}] = {v!r}" for k, v in env), *IMPORTS)


def indented(lines: Sequence[str]) -> list[str]:
    """Indent statements by one level."""
    return textwrap.indent("\n".join(lines), "    ").splitlines()


def side_env(
    env: tuple[tuple[str, str], ...], side: str
) -> tuple[tuple[str, str], ...]:
    """Return the environment of a side of `differs`."""
    word, _, rest = side.partition(":")
    if word == "platform":
        return (*env, ("JAX_PLATFORMS", rest))
    if word == "env":
        name, _, value = rest.partition("=")
        return (*env, (name, value))
    return env


def two_sides(
    name: str,
    under: str | None,
    env: tuple[tuple[str, str], ...],
    sides: tuple[str, str],
) -> list[str]:
    """Write statements that run the program in two ways: `first` and `second`.

    Each side is a fresh process of the same file, which saves its outputs.
    """
    words = [side.partition(":")[0] for side in sides]
    own = next((word for word in words if word in _WAYS), None)
    body = call_lines(name, under)
    if own is not None:
        body = [
            f"if sys.argv[1] == {quote(own)}:",
            *indented(_WAYS[own](name, under)),
            "else:",
            *indented(body),
        ]
    body += [
        "np.savez(sys.argv[2], *(np.asarray(x).astype(complex) for x in outputs))",
        "sys.exit()",
    ]
    lines = ["if len(sys.argv) > 2:  # one of the two sides, in a process of its own"]
    lines += [*indented(body), ""]
    lines += ["def run_side(python, side, env):"]
    lines += indented(
        [
            "with tempfile.TemporaryDirectory() as folder:",
            '    path = os.path.join(folder, "outputs.npz")',
            "    command = [python, __file__, side, path]",
            "    subprocess.run(command, env=os.environ | env, check=True)",
            "    with np.load(path) as stored:",
            "        return list(stored.values())",
        ]
    )
    lines += [""]
    for variable, side in zip(("first", "second"), sides):
        word, _, rest = side.partition(":")
        python = repr(rest) if word == "python" else "sys.executable"
        settings = dict(side_env(env, side))
        lines += [f"{variable} = run_side({python}, {word!r}, {settings!r})"]
    return lines


def two_short_sides(
    name: str,
    env: tuple[tuple[str, str], ...],
    sides: tuple[str, str],
    rtol: float,
    *,
    is_number: bool,
) -> list[str]:
    """Write statements that compare what each side prints: a number, or an array."""
    a, b = sides
    made = [
        "{" + ", ".join(f"{k!r}: {v!r}" for k, v in side_env(env, s)) + "}"
        for s in sides
    ]
    kind, _, path = b.partition(":")
    python = quote(path) if kind == "python" else "sys.executable"
    command = f"[{python}, __file__, 'y']"
    call = f"jax.jit({name})(**example_args())"
    call = f"float({call})" if is_number else f"np.asarray({call}, float)"
    printed = "x" if is_number else "x.tobytes().hex()"

    def read(env_text: str) -> list[str]:
        given = f", env={env_text}" if env_text else ""
        asked = f"subprocess.check_output({command}{given})"
        if is_number:
            return [f"float({asked})"]
        return [
            f"said = {asked}",
            "np.frombuffer(bytes.fromhex(said.decode())).reshape(x.shape)",
        ]

    told = [f"print({quote(a + ':')}, x, {quote(b + ':')}, y)"]
    told += _numbers_differ("they", rtol, is_number=is_number)
    if made[0] == "{}":  # which this process is
        is_same = made[1] == "{}"  # of another interpreter
        *before, value = read("" if is_same else "env")
        return [
            f"x = {call}",
            "if sys.argv[1:]:",
            f"    sys.exit(print({printed}))",
            *([] if is_same else [f"env = os.environ | {made[1]}"]),
            *before,
            f"y = {value}",
            *told,
        ]
    *before, value = read("os.environ | env")
    return [
        f"x = {call}",
        "if sys.argv[1:]:  # one of the two sides, in a process of its own",
        f"    sys.exit(print({printed}))",
        "",
        "def run_side(env):",
        *(f"    {line}" for line in before),
        f"    return {value}",
        "",
        f"x, y = run_side({made[0]}), run_side({made[1]})",
        *told,
    ]


def _numbers_differ(who: str, rtol: float, *, is_number: bool = True) -> list[str]:
    """Write statements that compare finite `x` and `y`."""
    most = "" if is_number else ".max()"
    return [f'assert not abs(x - y){most} > {rtol!r} * abs(y){most}, "{who} differ"']


def comparison(a: str, b: str, rtol: float) -> list[str]:
    """Write statements that compare `first` and `second`."""
    return [
        "for i, (x, y) in enumerate(zip(first, second)):",
        *(f"    {line}" for line in _same(rtol)),
        """    print(f"output {i}: {'the same' if is_same else told}")""",
        f'    assert is_same, f"output {{i}}: " {f"{a} and {b} differ"!r}',
    ]


def _same(rtol: float) -> list[str]:
    """Write statements that compare `x` with `y` as `differs` does."""
    return [
        "scale = np.abs(y[np.isfinite(y)]).max(initial=0.0)",
        f"is_same = np.allclose(x, y, 0, {rtol!r} * scale, equal_nan=True)",
        'told = "different"',
        "if scale and np.isfinite([x, y]).all():",
        '    told = f"relative error {np.abs(x - y).max() / scale:.2g}"',
    ]


def eager_lines(name: str, under: str | None) -> list[str]:
    """Write statements that run the program op by op and leave its `outputs`."""
    return [
        _EAGER_IMPORT,
        "",
        *_OP_BY_OP.splitlines(),
        *call_lines(name, under, "op_by_op"),
    ]


def called_lines(name: str, under: str | None) -> list[str]:
    """Write statements that call the program without jit and leave its `outputs`."""
    return [x.replace("example_args()", _ARRAYS) for x in call_lines(name, under, "")]


def wide_lines(name: str, under: str | None) -> list[str]:
    """Write statements that run the program in 64 bits and leave its `outputs`."""
    calls = [x.replace("example_args()", _WIDENED) for x in call_lines(name, under)]
    return [*_WIDE.splitlines(), _IN_64_BITS, *indented(calls)]


_WAYS = {"eager": eager_lines, "call": called_lines, "float64": wide_lines}
"""Ways of running a program in the same process, beside under `jax.jit`."""


def is_one_process(sides: Sequence[str]) -> bool:
    """Whether both sides of `differs` can run in one process."""
    return all(side == "jit" or side in _WAYS for side in sides)


def two_ways(
    name: str, under: str | None, sides: tuple[str, str], wide: Sequence[str] = ()
) -> list[str]:
    """Write statements that run the program in two ways here: `first` and `second`."""
    lines: list[str] = []
    for variable, side in zip(("first", "second"), sides):
        if side == "float64" and wide:
            body = [*wide, *call_lines(name, under), "return outputs"]
            lines += ["def in_64_bits():", *indented(body), ""]
            lines += [_IN_64_BITS, "    outputs = in_64_bits()"]
        else:
            lines += _WAYS.get(side, call_lines)(name, under)
        lines += [f"{variable} = [np.asarray(x).astype(complex) for x in outputs]"]
    return lines


def function_lines(name: str, under: str | None) -> list[str]:
    """Write statements that leave a `function` of a tuple of `inputs`."""
    if under is None:
        return [f"function, inputs, named = {name}, (), example_args()"]
    lines = call_lines(name, under, "(lambda f: lambda *a, **k: (f, a, k))")[:-1]
    return [*lines, "function, inputs, named = outputs"]


def compiled_lines(name: str, under: str | None) -> list[str]:
    """Write statements that leave the `compiled` program."""
    return [
        *function_lines(name, under),
        "compiled = jax.jit(function).lower(*inputs, **named).compile()",
    ]


_COUNTING = """\
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: events.append(event)
)
jax.block_until_ready(SECOND)
compilation = "/jax/core/compile/backend_compile_duration"
assert compilation not in events, "the second call compiles again"
print("no compilation: the failure is not there")
"""


def recompile_lines(
    name: str, under: str | None, program: Program | None = None
) -> list[str]:
    """Write statements that call twice and count compilations."""
    if under is None and is_single(program) and _is_stepping(program):
        first = [f"jitted = jax.jit({name})", "x = jitted(**example_args())"]
        return [*first, *_COUNTING.replace("SECOND", "jitted(x)").splitlines()]
    return [
        *function_lines(name, under),
        "jitted = jax.jit(function)",
        "leaves, tree = jax.tree.flatten((inputs, named))",
        "free = set(range(len(leaves)))",
        "for output in jax.tree.leaves(jitted(*inputs, **named)):",
        "    for i in sorted(free):",
        "        same_shape = jnp.shape(leaves[i]) == output.shape",
        "        if same_shape and jnp.result_type(leaves[i]) == output.dtype:",
        "            leaves[i] = output",
        "            free.discard(i)",
        "            break",
        "inputs, named = jax.tree.unflatten(tree, leaves)",
        *_COUNTING.replace("SECOND", "jitted(*inputs, **named)").splitlines(),
    ]


def _is_stepping(program: Program | None) -> bool:
    """Whether the first output has the type of the only input."""
    if program is None or len(program.block.inputs) != 1:
        return False
    given, made = program.block.inputs[0].aval, program.block.outputs[0].aval
    return (given.shape, given.dtype) == (made.shape, made.dtype)
