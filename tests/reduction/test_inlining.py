"""Functions of the user's stand in the file where they need nothing of theirs."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from untrace.cli import main
from untrace.reduction.inlining import with_own_functions

HOST = """\
import math
import numpy as np
import jax.numpy as jnp
LIMIT = 3.0
def plain(x, most=3.0):
    if float(np.max(x)) > most:
        raise ValueError(f"value {math.floor(np.max(x))} is out of range")
    return np.asarray(x)
def limited(x):
    return min(x, LIMIT)
def made():
    def inner(x):
        return x
    return inner
closed = made()
def told(x, most: float = LIMIT):
    return x
x = most = 1.0  # like a variable of the functions
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    (tmp_path / "host_module.py").write_text(HOST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("host_module", None)


def inlined(text):
    return with_own_functions(text, lambda name: name == "host_module")


def test_a_function_of_packages_alone_is_written(host):
    text, needed = inlined("import jax\nfrom host_module import plain\n\n\ny = plain\n")
    assert "host_module" not in text and "def plain(x, most=3.0):" in text
    assert text.index("def plain") < text.index("y = plain")
    assert set(needed) == {"import math", "import numpy as np"}


@pytest.mark.parametrize(
    "text",
    [
        "from host_module import limited\n",
        "from host_module import closed\n",
        "from host_module import told\n",
        "from host_module import plain, limited\n",
        "from host_module import plain as other\n",
        "import jax.numpy as np\nfrom host_module import plain\n",
        "from numpy import sin\n",
    ],
)
def test_what_needs_more_is_imported(host, text):
    assert inlined(text) == (text, [])


def test_a_file_with_a_callback_fails_alone(host):
    (host / "model.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "from host_module import plain\n"
        "def f(x):\n"
        "    y = jnp.sin(x) + 5.0\n"
        "    return jax.pure_callback(plain, y, y) * 2.0\n"
    )
    done = CliRunner().invoke(main, ["reduce", "model.py", "f(jnp.ones(3))"])
    assert done.exit_code == 0, done.output
    text = (host / "repro.py").read_text()
    assert "def plain(" in text and "PYTHONPATH" not in text
    (host / "elsewhere").mkdir()
    (host / "elsewhere" / "repro.py").write_text(text)
    alone = subprocess.run(
        [sys.executable, "repro.py"],
        cwd=host / "elsewhere",
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 1
    assert "is out of range" in alone.stderr
