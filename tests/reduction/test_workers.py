"""Worker processes: every end of a program is an outcome."""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from untrace.reduction.applying import program_from
from untrace.reduction.keeping import Crashes
from untrace.reduction.outcome import Job, Run
from untrace.reduction.workers import close_servers, run_job, running
from untrace.reduction.workers.process import LostServer, Server
from untrace.reduction.workers.wire import decode, encode

IMPORTS = "import os, signal, subprocess, sys, time\nimport jax, jax.numpy as jnp\n"
X = np.ones(3, np.float32)
# Another installation of JAX, as in `benchmarks/reduce/cases`.
OTHER_PYTHONS = [path for path in [os.environ.get("UNTRACE_OTHER_PYTHON")] if path]


def job(body, *args, **run):
    """Make a job of a function body, in which the inputs are `args`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{IMPORTS}\ndef f(*args):\n    x = args[0]\n{lines}"
    run.setdefault("timeout_s", 30.0)
    return Job(text, "f", tuple(encode(a) for a in args or (X,)), Run(**run))


def on_host(body):
    """Make a function body that does something on the host while the program runs."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    callback = "jax.pure_callback(host, jax.ShapeDtypeStruct((), 'float32'), x)"
    return f"def host(x):\n{lines}    return x.sum()\nreturn {callback}"


def test_program_runs_to_its_end():
    outcome = run_job(job("return x * 2, x.sum()", wants=frozenset({"arrays"})))
    assert (outcome.status, outcome.stage) == ("ok", "done")
    assert [o.shape for o in outcome.outputs] == [(3,), ()]
    assert {"load", "trace", "lower", "compile", "run"} <= set(outcome.seconds)
    assert decode(outcome.arrays[1]) == 3


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("os.abort()", signal.SIGABRT),
        ("import ctypes; ctypes.string_at(0)", signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGFPE)", signal.SIGFPE),
    ],
)
@pytest.mark.parametrize("stage", ["trace", "run"])
def test_crash_is_located(body, number, stage):
    outcome = run_job(job(on_host(body) if stage == "run" else body))
    assert (outcome.status, outcome.stage) == ("died", stage)
    assert outcome.signal == number


def test_crash_while_loading():
    outcome = run_job(Job("import os; os.abort()", "f", (), Run()))
    assert (outcome.status, outcome.stage) == ("died", "load")
    assert outcome.signal_name == "SIGABRT"


def test_exit_is_not_a_signal():
    outcome = run_job(job("os._exit(3)"))
    assert (outcome.status, outcome.signal, outcome.exit_status) == ("died", None, 3)


def test_last_words_are_kept():
    body = "os.write(2, b'noise ' * 9000 + b'Check failed: a == b'); os.abort()"
    assert run_job(job(body)).stderr.endswith("Check failed: a == b")


@pytest.mark.parametrize(
    ("text", "stage", "name"),
    [
        ("1 / 0", "load", "builtins.ZeroDivisionError"),
        ("def f(x:", "load", "builtins.SyntaxError"),
        (IMPORTS + "def f(x): return x @ jnp.ones(7)", "trace", "builtins.TypeError"),
        (IMPORTS + "def f(x): sys.exit()", "trace", "builtins.SystemExit"),
        (
            IMPORTS + "p = jax.extend.core.Primitive('nowhere')\n"
            "p.def_abstract_eval(lambda x: x)\ndef f(x): return p.bind(x)",
            "lower",
            "builtins.NotImplementedError",
        ),
    ],
)
def test_exception_is_located(text, stage, name):
    text = text.replace("import jax,", "import jax.extend.core, jax,")
    outcome = run_job(Job(text, "f", (encode(X),), Run()))
    assert (outcome.status, outcome.stage) == ("raised", stage), outcome
    assert outcome.exception[0] == name
    assert "builtins.BaseException" in outcome.exception


def test_exception_while_running_tells_its_message():
    outcome = run_job(job(on_host("raise ValueError('so it is')")))
    assert (outcome.status, outcome.stage) == ("raised", "run")
    assert "so it is" in outcome.message


def test_message_that_cannot_be_made_is_no_crash():
    body = "class E(Exception):\n    def __str__(self): raise OSError\nraise E"
    assert run_job(job(body)).status == "raised"


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        "while True: pass",
        "while True: os.write(2, b'again ' * 999)",
        "os.closerange(3, 99); time.sleep(60)",
    ],
)
def test_time_limit(body):
    began = time.monotonic()
    outcome = run_job(job(body, timeout_s=1.0))
    assert (outcome.status, outcome.stage) == ("timeout", "trace")
    assert 0.5 < outcome.seconds["trace"] < 3
    assert time.monotonic() - began < 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks in /proc")
def test_memory_limit():
    body = "held = []\nwhile True:\n    held.append(b'x' * (1 << 24))"
    outcome = run_job(job(body, memory_bytes=1 << 30))
    assert (outcome.status, outcome.stage) == ("memory", "trace")


@pytest.mark.parametrize("leaves_group", [False, True])
def test_leftover_grandchild_is_killed(leaves_group, tmp_path):
    path = tmp_path / "pid"
    body = (
        "p = subprocess.Popen(['sleep', '300'], "
        f"start_new_session={leaves_group})\n"
        f"open({str(path)!r}, 'w').write(str(p.pid))\nreturn x"
    )
    assert run_job(job(body)).status == "ok"
    _assert_gone(int(path.read_text()))


def test_grandchild_that_holds_the_pipes_is_not_waited_for():
    began = time.monotonic()
    outcome = run_job(job("if os.fork() == 0: time.sleep(300)\nos.abort()"))
    assert outcome.signal == signal.SIGABRT
    assert time.monotonic() - began < 10


def test_server_killed_in_flight_runs_the_job_again(tmp_path):
    path = tmp_path / "runs"
    body = f"open({str(path)!r}, 'a').write('x')\ntime.sleep(1.5)\nreturn x"
    run_job(job("return x"))
    killer = threading.Thread(target=_kill_servers_once_running, args=(path,))
    killer.start()
    outcome = run_job(job(body))
    killer.join()
    assert outcome.status == "ok"
    assert path.read_text() == "xx"


def test_child_of_a_killed_server_dies_too(tmp_path):
    path = tmp_path / "pid"
    body = f"open({str(path)!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)"
    task = threading.Thread(target=run_job, args=(job(body, timeout_s=4.0),))
    task.start()
    _wait_for(path)
    pid = int(path.read_text())
    for server in list(running._busy):
        os.kill(server.process.pid, signal.SIGKILL)
    _assert_gone(pid)
    task.join()


def test_program_that_kills_its_server_is_lost_in_the_end():
    outcome = run_job(job("os.kill(os.getppid(), 9); time.sleep(9)"))
    assert outcome.status == "lost"
    assert run_job(job("return x")).status == "ok"


def test_program_that_kills_itself_has_died():
    outcome = run_job(job("os.kill(os.getpid(), 9)"))
    assert (outcome.status, outcome.signal_name) == ("died", "SIGKILL")


def test_hung_server_is_a_timeout(monkeypatch):
    monkeypatch.setattr("untrace.reduction.workers.process.GRACE_S", 0.5)
    body = "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)"
    assert run_job(job(body, timeout_s=1.0)).status == "timeout"


def test_program_cannot_write_into_the_protocol(capfd):
    body = "os.write(1, b'1' * 99); print('2' * 99); os.write(2, b'3'); return x"
    assert run_job(job(body)).status == "ok"
    assert capfd.readouterr() == ("", "")


def test_program_that_writes_everywhere_is_an_outcome():
    body = (
        "for fd in range(3, 64):\n    try: os.write(fd, b'garbage ' * 9)\n"
        "    except OSError: pass\nreturn x"
    )
    assert run_job(job(body, timeout_s=5.0)).status in ("ok", "lost", "timeout", "died")
    assert run_job(job("return x")).status == "ok"


def test_environment_is_there_when_jax_is_imported():
    flags = "--xla_force_host_platform_device_count=3"
    body = "assert os.environ['A'] == 'b'\nreturn x + jax.device_count()"
    run = {"env": (("A", "b"), ("XLA_FLAGS", flags)), "wants": frozenset({"arrays"})}
    outcome = run_job(job(body, **run))
    assert outcome.status == "ok", outcome
    assert decode(outcome.arrays[0])[0] == 4
    assert run_job(job("assert 'A' not in os.environ\nreturn x")).status == "ok"


def test_text_may_set_flags_before_the_backend_starts():
    text = (
        "import os\nos.environ['XLA_FLAGS'] = "
        "'--xla_force_host_platform_device_count=5'\n"
        "import jax\ndef f(x): return x + jax.device_count()"
    )
    outcome = run_job(Job(text, "f", (encode(X),), Run(wants=frozenset({"arrays"}))))
    assert decode(outcome.arrays[0])[0] == 6


def test_modules_of_this_process_can_be_imported():
    text = "import tests.reduction\ndef f(x): return x"
    assert run_job(Job(text, "f", (encode(X),), Run())).status == "ok"


def test_modules_that_can_be_imported_since_the_start_are_found(tmp_path, monkeypatch):
    assert run_job(job("return x")).status == "ok"  # by a process that goes on
    (tmp_path / "told_later.py").write_text("SCALE = 2.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    body = "import told_later\nreturn x * told_later.SCALE"
    outcome = run_job(job(body, wants=frozenset({"arrays"})))
    assert outcome.status == "ok", outcome
    assert decode(outcome.arrays[0])[0] == 2.5


@pytest.mark.skipif(not OTHER_PYTHONS, reason="needs a second Python with JAX")
def test_two_pythons():
    body = "return x + sys.version_info[1]"
    run = {"wants": frozenset({"arrays"})}
    here = decode(run_job(job(body, **run)).arrays[0])[0]
    there = decode(run_job(job(body, python=OTHER_PYTHONS[0], **run)).arrays[0])[0]
    assert here == 1 + sys.version_info[1] != there


def test_python_that_does_not_start_is_lost():
    outcome = run_job(job("return x", python="/bin/false"))
    assert outcome.status == "lost"
    assert "/bin/false does not start JAX" in outcome.message
    assert run_job(job("return x", python="/no/such")).status == "lost"


@pytest.mark.parametrize(
    "value",
    [
        np.float32(2.5),
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.zeros((0, 2), np.float16),
        np.array(True),
        np.array([1 + 2j], np.complex64),
        np.array([1.5, -np.inf, np.nan], ml_dtypes.bfloat16),
        np.array([1.5, 2.0], ml_dtypes.float8_e4m3fn),
        np.array([1, -3], ml_dtypes.int4),
        2,
        2.5,
        True,
        1j,
        float("nan"),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_inputs_and_outputs_arrive_unchanged(value):
    outcome = run_job(job("return x", value, wants=frozenset({"arrays"})))
    assert outcome.status == "ok", outcome
    want = np.asarray(jax.jit(lambda x: x)(value))
    found = decode(outcome.arrays[0])
    assert found.dtype == want.dtype
    assert found.tobytes() == want.tobytes()
    assert outcome.arrays[0].is_weak == (type(value) in (int, float, complex))


def test_typed_key_arrives_as_itself():
    key = jax.random.key(3, impl="rbg")
    body = "assert str(jax.random.key_impl(x)) == 'rbg'\nreturn jax.random.bits(x), x"
    outcome = run_job(job(body, key, wants=frozenset({"arrays"})))
    assert decode(outcome.arrays[0]) == jax.random.bits(key)
    assert np.array_equal(decode(outcome.arrays[1]), jax.random.key_data(key))


def test_weak_array_stays_weak():
    weak = jnp.broadcast_to(jnp.asarray(2.0), (3,))
    assert weak.weak_type
    found = encode(np.asarray(weak), is_weak=True)
    body = "assert x.aval.weak_type\nreturn x"
    made = job(body)
    assert run_job(Job(made.text, "f", (found,), made.run)).status == "ok"


def test_64_bits():
    run = {"float64": True, "wants": frozenset({"arrays"})}
    outcome = run_job(job("return x", np.ones(2), **run))
    assert decode(outcome.arrays[0]).dtype == np.float64
    outcome = run_job(job("return x", np.ones(2), wants=frozenset({"arrays"})))
    assert decode(outcome.arrays[0]).dtype == np.float32


def test_op_by_op_does_not_jit():
    # Compiled, the product is not rounded before the difference is taken.
    body = "return jax.jit(lambda x, y: x * x - y)(*args)"
    run = {"wants": frozenset({"arrays"})}
    args = np.float32(1.6), np.float32(1.6) * np.float32(1.6)
    assert decode(run_job(job(body, *args, **run)).arrays[0]) != 0
    outcome = run_job(job(body, *args, action="eager", **run))
    assert decode(outcome.arrays[0]) == 0


def test_compile_does_not_run():
    outcome = run_job(job(on_host("os.abort()"), action="compile"))
    assert (outcome.status, outcome.stage, outcome.outputs) == ("ok", "done", ())


@pytest.mark.parametrize("action", ["jit", "eager"])
def test_transformations(action):
    n = np.arange(3)
    body = "return (x ** 2 * args[1]).sum(), args[1]"
    for under, want in (("grad", [0, 2, 4]), ("vmap", [3, 3]), ("jvp", 3)):
        run = {"under": under, "action": action, "wants": frozenset({"arrays"})}
        outcome = run_job(job(body, X, n, **run))
        assert outcome.status == "ok", outcome
        found = [decode(a).tolist() for a in outcome.arrays]
        assert found[0] == want
    assert found[2] == 6.0


@pytest.mark.parametrize(
    ("body", "zeros", "want"),
    [
        ("return jnp.log(x) - jnp.log(x)", True, "log"),
        ("return jnp.log(x)", True, "log"),
        ("return jnp.sqrt(x - 2)", False, "sqrt"),
        ("return x * 1e38 * 1e38", False, "mul"),
        ("m = jnp.where(x > 0, -jnp.inf, x)\nreturn (m - m).sum() + 1", False, "sub"),
        ("return jax.jit(lambda y: jnp.exp(y * 1000))(x)", False, "exp"),
        ("return jax.checkpoint(lambda y: y / 0)(x)", False, "div"),
        (
            "def step(c, row):\n    c = c * 10.\n"
            "    return c, jnp.log(5e3 - c.sum()) + row\n"
            "return jax.lax.scan(step, x, jnp.ones(9), reverse=True)",
            False,
            "log",
        ),
        (
            "return jax.lax.while_loop(lambda c: c[0] < 4, "
            "lambda c: (c[0] + 1, jnp.sqrt(c[1] - 1)), (0, x))[1]",
            False,
            "sqrt",
        ),
        (
            "return jax.lax.cond(x[0] > 0, jnp.arccosh, jnp.sin, x / 2)",
            False,
            "acosh",
        ),
        ("return jax.nn.relu(x) / 0.0 + jax.nn.gelu(x)", False, "div"),
    ],
)
def test_blame_finds_the_innermost_primitive(body, zeros, want):
    value = np.zeros(3, np.float32) if zeros else X
    outcome = run_job(job(body, value, wants=frozenset({"blame"})))
    assert outcome.status == "ok", outcome
    assert outcome.blame == want


def test_blame_under_grad():
    run = {"under": "grad", "wants": frozenset({"blame"})}
    outcome = run_job(job("return jnp.sqrt(x * 0).sum()", **run))
    assert outcome.outputs[0].n_nan == 3
    assert outcome.blame in ("div", "mul", "rsqrt", "integer_pow", "pow")


def test_blame_is_not_asked_of_finite_outputs():
    outcome = run_job(job("return x", wants=frozenset({"blame"})))
    assert outcome.blame is None


def test_inputs_that_are_not_finite_are_seen():
    outcome = run_job(job("return x", np.array([np.inf], np.float32)))
    assert not outcome.has_finite_inputs
    assert not outcome.has_nan_inputs
    outcome = run_job(job("return x", float("nan")))
    assert outcome.has_nan_inputs


def test_memory_is_planned():
    run = {"action": "compile", "wants": frozenset({"memory"})}
    outcome = run_job(job("return jnp.outer(x, x)", np.ones(1000, np.float32), **run))
    assert 4_000_000 < outcome.peak_bytes < 5_000_000


@pytest.mark.parametrize(("value", "want"), [(X, 1), (1.0, 2)])
def test_compilations_are_counted(value, want):
    body = "return x + jnp.zeros((), 'float32')"
    outcome = run_job(job(body, value, wants=frozenset({"recompiles"})))
    assert outcome.n_compiles == want


def test_jobs_run_at_once():
    run_job(job("return x"))
    outcomes = []
    body = "time.sleep(1)\nreturn x"
    threads = [
        threading.Thread(target=lambda: outcomes.append(run_job(job(body))))
        for _ in range(3)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [o.status for o in outcomes] == ["ok"] * 3
    # Two servers are started, which is the slow part on two cores.
    assert time.monotonic() - began < 15


def test_process_without_fork_runs_one_job():
    for body, want in (
        ("return x", ("ok", "done", None)),
        ("os.abort()", ("died", "trace", 6)),
        ("raise KeyError(1)", ("raised", "trace", None)),
        ("time.sleep(60)", ("timeout", "trace", None)),
    ):
        server = Server(sys.executable, (), forks=False)
        outcome = server.ask(job(body, timeout_s=5.0))
        assert (outcome.status, outcome.stage, outcome.signal) == want
        assert not server.is_alive()


def test_process_without_fork_limits_memory():
    server = Server(sys.executable, (), forks=False)
    body = "held = []\nwhile True:\n    held.append(b'x' * (1 << 22))"
    outcome = server.ask(job(body, memory_bytes=1 << 30))
    assert (outcome.status, outcome.stage) == ("memory", "trace")


def test_process_without_fork_does_not_count_the_memory_of_its_parent():
    held = b"x" * (1 << 30)
    server = Server(sys.executable, (), forks=False)
    outcome = server.ask(job("return x", memory_bytes=len(held)))
    assert outcome.status == "ok"


def test_server_ends_with_its_parent():
    text = (
        "import os, sys\n"
        "from untrace.reduction.workers.process import Server\n"
        "print(Server(sys.executable, ()).process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    _assert_gone(int(found.stdout))


def test_servers_are_closed():
    run_job(job("return x"))
    pids = [server.process.pid for server in running._idle]
    close_servers()
    for pid in pids:
        _assert_gone(pid)
    assert run_job(job("return x")).status == "ok"


def test_closing_in_the_middle_of_a_job_does_not_start_it_again(tmp_path):
    path = tmp_path / "runs"
    body = f"open({str(path)!r}, 'a').write('x')\ntime.sleep(60)"
    found = []
    task = threading.Thread(target=lambda: found.append(run_job(job(body))))
    task.start()
    _wait_for(path)
    close_servers()
    task.join(20)
    assert (found[0].status, path.read_text()) == ("lost", "x")


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_process_leaves_our_servers_alone():
    run_job(job("return x"))
    pids = [server.process.pid for server in running._idle]
    pid = os.fork()
    if pid == 0:
        close_servers()
        os._exit(len(running._idle))
    assert os.waitpid(pid, 0)[1] == 0
    assert all(_is_running(pid) for pid in pids)


def test_server_that_does_not_start_says_why():
    with pytest.raises(LostServer, match="does not start JAX"):
        Server(sys.executable, (("JAX_ENABLE_X64", "perhaps"),))


def command(text, **run):
    return Job("", "f", (), Run("command", command=text, **run), "print('hello')\n")


def test_command_sees_the_file():
    assert run_job(command("grep -q hello {file}")).exit_status == 0
    outcome = run_job(command("grep -q bye {file} || echo why >&2 && exit 3"))
    assert (outcome.status, outcome.exit_status, outcome.stderr) == ("ok", 3, "why\n")
    assert run_job(command(f"{sys.executable} {{file}}")).stderr == "hello\n"


def test_command_is_limited(tmp_path):
    path = tmp_path / "pid"
    outcome = run_job(command(f"sleep 300 & echo $! > {path}; wait", timeout_s=0.5))
    assert outcome.status == "timeout"
    _assert_gone(int(path.read_text()))


def test_command_has_its_environment():
    assert run_job(command("test $A = b", env=(("A", "b"),))).exit_status == 0


def test_warm_run_is_quick():
    run_job(job("return x"))
    began = time.perf_counter()
    for _ in range(5):
        run_job(job("return jnp.sin(x) * 2"))
    # 0.08 s on a quiet machine; a fresh interpreter takes 0.6 s.
    assert (time.perf_counter() - began) / 5 < 0.5


def _kill_servers_once_running(path):
    _wait_for(path)
    for server in list(running._busy):
        os.kill(server.process.pid, signal.SIGKILL)


def _wait_for(path):
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)


def _assert_gone(pid):
    deadline = time.monotonic() + 10
    while _is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.05)


def _is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="native stacks are told on Linux",
)
def test_two_crashes_are_told_apart_by_where_they_are():
    wants = {"wants": frozenset({"stack"})}
    bodies = ("ctypes.string_at(0)", "ctypes.CDLL(None).strlen(0)")
    texts = [f"import ctypes; {body}; return x" for body in (*bodies, bodies[0])]
    found = [run_job(job(text, **wants)) for text in texts]
    assert {outcome.signal_name for outcome in found} == {"SIGSEGV"}
    first, second, again = (outcome.stack for outcome in found)
    assert first[0].startswith("libc.") and "+0x" in first[-1]
    assert first == again != second
    program = program_from(jax.make_jaxpr(jnp.sin)(X), (X,), ("x",), "f")
    pinned = Crashes("SIGSEGV", stack=()).pinned(found[:1], program)
    assert pinned.holds((found[2],), program)
    assert not pinned.holds((found[1],), program)


def test_a_server_that_still_starts_is_closed():
    found = []
    env = (("UNTRACE_ITS_OWN", "1"),)
    thread = threading.Thread(
        target=lambda: found.append(run_job(job("return x", env=env)))
    )
    thread.start()
    while not any(server.key[1] == env for server in list(running._busy)):
        time.sleep(0.01)
    close_servers()
    thread.join(5)
    assert [outcome.status for outcome in found] == ["lost"]


PLANTED = "from benchmarks.reduce import planted\n"
NOT_AS_A_WHOLE = "x = planted.fused_bias(x[None].T)[:, 0]\n"
"""A program with this is not lowered as a whole, only equation by equation."""


def test_a_large_program_is_judged_without_compiling_it():
    body = f"{PLANTED}{NOT_AS_A_WHOLE}for _ in range(2_100): x = x + 1\nreturn jnp.log(x - x) * 0"
    outcome = run_job(job(body, wants=frozenset({"blame"})))
    assert outcome.status == "ok"
    assert outcome.blame == "log"
    assert outcome.outputs[0].n_nan == 3


def test_a_large_program_with_control_inputs_is_not_compiled():
    body = f"{PLANTED}{NOT_AS_A_WHOLE}for _ in range(2_100): x = x + 1\nreturn x"
    outcome = run_job(job(body, wants=frozenset({"quick"})))
    assert outcome.status == "ok"


@pytest.mark.parametrize("want", ["alone", "blame"])
@pytest.mark.parametrize(
    ("last", "ends"),
    [
        (
            "planted.fused_scale(jnp.ones(17) * x[0])",
            ("raised", "lower", "fused_scale"),
        ),
        (
            "planted.tiled_softmax(jnp.ones(4096) * x[0])",
            ("raised", "compile", "tiled_softmax"),
        ),
        ("planted.checked_rate(x * 0 + 2e3)", ("raised", "run", "checked_rate")),
        ("planted.fast_gelu(x.astype('bfloat16'))", ("died", "lower", "fast_gelu")),
        ("planted.table_read(x * 0 - 1)", ("died", "run", "table_read")),
    ],
)
def test_large_programs_fail_at_their_stage_and_name_the_equation(last, ends, want):
    body = f"{PLANTED}for _ in range(2_100): x = x + 1\nreturn {last}"
    outcome = run_job(job(body, wants=frozenset({want})))
    assert (outcome.status, outcome.stage, outcome.blame) == ends
    assert outcome.blame_row > 2_100


def test_what_fails_only_as_a_whole_is_found_in_large_programs():
    body = f"{PLANTED}for _ in range(2_100): x = x + 1\nreturn planted.fused_bias(x[None].T)"
    outcome = run_job(job(body, wants=frozenset({"alone"})))
    assert (outcome.status, outcome.stage) == ("raised", "lower")
    assert outcome.blame == "fused_bias"


def test_the_row_to_blame_is_one_of_the_program_with_its_calls():
    body = "x = jax.jit(lambda y: y * 2 + 1 - y * 2)(x)\nreturn jnp.log(x - x - 1)"
    outcome = run_job(job(body, wants=frozenset({"blame"})))
    assert (outcome.blame, outcome.blame_row) == ("log", 3)
