"""What a file does beyond computing is listed, and nothing of it runs."""

import textwrap
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from tests.corpus.harness import sampled
from untrace.cli import main
from untrace.static_check import check_file

GOLDEN = Path(__file__).parent / "golden"
WEIGHTS = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)

HOSTILE = [
    # imports
    ("import os", "imports `os`"),
    ("import jax, subprocess as jnp", "imports `subprocess`"),
    ("import numpy.f2py", "imports `numpy.f2py`"),
    ("import jax._src.path", "imports `jax._src.path`"),
    ("from jax import *", "imports `jax.*`"),
    ("from . import model", "imports `.model`"),
    ("from jax._src.lib import os", "imports `jax._src.lib.os`"),
    ("from jax.experimental import io_callback as print", "io_callback"),
    ("import jax.profiler", "imports `jax.profiler`"),
    ("import pathlib, json", "imports `pathlib`"),
    ("from functools import singledispatch", "singledispatch"),
    ("from operator import attrgetter", "attrgetter"),
    ("import antigravity", "imports `antigravity`"),
    ("def f():\n    import os", "imports `os`"),
    # modules under other names, and modules inside of modules
    ("import jax as os\nos.system('x')", "uses `os.system`"),
    ("import jax as os\nos._src.os.system('x')", "uses `os._src.os.system`"),
    ("import jax\njax._src.os.system", "uses `jax._src.os.system`"),
    ("import numpy as jnp\njnp.load('x')", "uses `jnp.load`"),
    ("import jax.numpy as jnp\njnp.load('x')", "uses `jnp.load`"),
    ("import numpy as np\nnp.f2py.compile('x')", "uses `np.f2py.compile`"),
    ("import numpy as np\nnp.ctypeslib", "uses `np.ctypeslib`"),
    ("import numpy as np\nnp.lib.npyio", "uses `np.lib.npyio`"),
    ("import numpy as np\nx = np\nx.load('x')", "a module, used as a value"),
    ("import jax\n(lambda m: m.config)(jax)", "a module, used as a value"),
    ("import jax\nx = jax.numpy", "a module, used as a value"),
    ("import numpy as np\nnp.ndarray.tofile(1, 'x')", "uses `np.ndarray.tofile`"),
    ("import numpy as a\ndef f(a):\n    return a.load('x')", "attribute `load`"),
    ("if 0:\n    import jax as m\nelse:\n    import numpy as m\nm.save", "`save`"),
    # what reaches the host
    ("import jax\njax.pure_callback(f, 1)", "uses `jax.pure_callback`"),
    ("import jax\njax.debug.callback(print)", "uses `jax.debug.callback`"),
    ("import jax\njax.debug.breakpoint()", "uses `jax.debug.breakpoint`"),
    ("import jax\njax.profiler.start_trace('x')", "uses `jax.profiler.start_trace`"),
    ("import jax\njax.export.deserialize(b'')", "uses `jax.export.deserialize`"),
    ("import jax\njax.ffi.ffi_call('x', 1)", "uses `jax.ffi.ffi_call`"),
    ("import jax\njax.config.update('jax_dump_ir_to', 'x')", "`jax.config.update`"),
    ("import jax\njax.config.update('jax_enable_x64', open('x'))", "uses `open`"),
    ("import jax\nu = jax.config.update\nu('jax_dump_ir_to', 'x')", "config.update"),
    ("import jax\njax.jit(f, compiler_options={'xla_dump_to': 'x'})", "the compiler"),
    ("from jax.extend.core.primitives import ffi_call_p", "ffi_call_p"),
    # builtins
    ("eval('1')", "uses `eval`"),
    ("exec('1')", "uses `exec`"),
    ("open('x', 'w')", "uses `open`"),
    ("getattr(1, 'real')", "uses `getattr`"),
    ("__import__('os').system('x')", "uses `__import__`"),
    ("jnp = __builtins__\njnp['open']", "uses `__builtins__`"),
    ("vars()['__builtins__']", "uses `vars`"),
    ("globals()", "uses `globals`"),
    ("breakpoint()", "uses `breakpoint`"),
    ("type('A', (), {})", "uses `type`"),
    ("__loader__.load_module('os')", "uses `__loader__`"),
    ("nowhere(1)", "uses `nowhere`, which it does not define"),
    ("def f(open):\n    pass\nopen('x')", "uses `open`"),
    ("ｅｖａｌ('1')", "uses `eval`"),
    # places where nothing is called
    ("@eval\ndef f():\n    pass", "uses `eval`"),
    ("def f(x=open):\n    return x", "uses `open`"),
    ("f = lambda x, y=exec: y(x)", "uses `exec`"),
    ("def f(x: eval('1')):\n    pass", "uses `eval`"),
    ("class A(eval('object')):\n    pass", "uses `eval`"),
    ("[x for x in [open]]", "uses `open`"),
    ("f'{open(1)}'", "uses `open`"),
    ("print('%s' % open)", "uses `open`"),
    ("sorted('x', key=open)", "uses `open`"),
    ("def f():\n    return (yield open)", "uses `open`"),
    # attributes of values
    ("().__class__.__base__.__subclasses__()", "attribute `__subclasses__`"),
    ("(lambda: 0).__globals__['x']", "attribute `__globals__`"),
    ("'{0.__class__}'.format(1)", "attribute `format`"),
    ("import jax\njax.debug.print('{x.__class__}', x=1)", "private attributes"),
    ("x = '{0[__builtins__]}'", "private attributes"),
    ("f'{(1).__class__}'", "attribute `__class__`"),
    ("def f(x):\n    x.tofile('x')", "attribute `tofile`"),
    ("def f(x):\n    x.dump('x')", "attribute `dump`"),
    ("def f(x):\n    x.system('x')", "attribute `system`"),
    ("(x for x in 'x').gi_frame.f_globals", "attribute `gi_frame`"),
    (
        "from typing import Any, NamedTuple\nclass A(NamedTuple):\n    gi_frame: Any\n"
        "def f(x):\n    return x.gi_frame",
        "attribute `gi_frame`",
    ),
    ("import functools\nfunctools.partial.__call__", "functools.partial.__call__"),
    ("import math\nmath.__loader__", "math.__loader__"),
    ("import operator\noperator.attrgetter('__class__')", "operator.attrgetter"),
    # changing what others see, hooks, and statements that are never written
    ("import jax\njax.nn.relu = 1", "changes `jax.nn.relu`"),
    ("import jax\ndel jax.nn.relu", "changes `jax.nn.relu`"),
    ("def f(x):\n    x.shape = 1", "changes `x.shape`"),
    ("class A:\n    def __del__(self):\n        pass", "defines `__del__`"),
    ("class A(metaclass=1):\n    pass", "a metaclass"),
    ("def f():\n    global x\n    x = 1", "`Global`"),
    ("async def f():\n    pass", "`AsyncFunctionDef`"),
    ("match 1:\n    case x:\n        pass", "`Match`"),
    ("def __getattr__(name):\n    pass", "defines `__getattr__`"),
    ("def f(__builtins__):\n    pass", "defines `__builtins__`"),
    ("try:\n    pass\nexcept ValueError as open:\n    pass", "defines `open`"),
]


@pytest.mark.parametrize(("text", "message"), HOSTILE)
def test_hostile_text_is_listed(text, message):
    found = check_file(text.encode())
    assert any(message in finding.text for finding in found), found


def test_findings_name_lines_in_order():
    found = check_file(b"import jax\nimport os\n\nos.system('x')\neval('1')\n")
    assert [finding.line for finding in found] == [2, 4, 5]


def test_other_encodings_are_listed():
    text = b"# coding: utf-7\n'+ACc-'\n"
    assert "utf-7" in check_file(text)[0].text


@pytest.mark.parametrize("text", [b"def", b"\x00", b"\xff", b"(" * 100_000])
def test_what_is_not_python_is_an_error(text):
    with pytest.raises(untrace.LoadError, match="not valid Python"):
        check_file(text)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda p: p.stem)
def test_nothing_is_listed_of_what_is_recorded(path):
    assert check_file(path.read_bytes()) == []


def test_gradients_that_are_opened_only_compute():
    """They add cotangents as JAX does; the rest of that module does more."""
    src = untrace.source(jax.grad(lambda x: (jnp.sin(x) * x).sum()), expand="grad")
    text = src(jnp.ones(3)).text
    assert "add_jaxvals" in text and check_file(text.encode()) == []
    other = b"from jax.interpreters.ad import linearize\n"
    assert "does more than compute" in check_file(other)[0].text


def test_nothing_is_listed_of_what_level_lax_writes():
    listed = {}
    for case in sampled(120):
        args = case.dyn_args_maker(np.random.RandomState(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                jaxpr = jax.make_jaxpr(case.dyn_fun)(*args)
            except Exception:  # what JAX cannot trace is not ours
                continue
            src = untrace.source(jaxpr, verify=False)
        if found := check_file(str(src).encode()):
            listed[case.fullname] = found
    assert not listed


def layer(x):
    return jnp.tanh(x @ WEIGHTS)


def test_the_loader_of_a_sidecar_is_known_and_another_is_not(tmp_path):
    path = untrace.source(layer)(jnp.ones(20)).save(tmp_path / "layer.py")
    text = path.read_text()
    assert "pathlib" in text and check_file(text.encode()) == []
    changed = text.replace("path.read_bytes()", "path.unlink()", 1)
    assert any("unlink" in finding.text for finding in check_file(changed.encode()))
    more = text + "\npathlib.Path('x').unlink()\n"
    assert any("pathlib" in finding.text for finding in check_file(more.encode()))


def test_callbacks_are_listed():
    def f(x):
        jax.debug.callback(print, x)
        return x

    found = check_file(str(untrace.source(f)(jnp.ones(3))).encode())
    assert any("jax.debug.callback" in finding.text for finding in found)


def no_run(path):
    return CliRunner().invoke(main, ["verify", "--no-run", str(path)])


def test_no_run_does_not_run(tmp_path):
    path = untrace.source(layer)(jnp.ones(20)).save(tmp_path / "layer.py")
    done = no_run(path)
    assert done.exit_code == 0 and done.stdout == ""
    assert "nothing but computations" in " ".join(done.stderr.split())
    hostile = "import os\nos.mkdir('made')\n"
    path.write_text(path.read_text() + textwrap.dedent(hostile))
    done = no_run(path)
    assert done.exit_code == 1 and "imports `os`" in done.stdout
    assert f"{path}:" in done.stdout and not (tmp_path / "made").exists()
    path.write_text("def")
    assert no_run(path).exit_code == 2
