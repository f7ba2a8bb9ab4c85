"""Whatever breaks, a reduction ends with a program that fails, and nothing is lost."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import pytest

import untrace
from tests.reduction.programs import deep
from untrace import reducing
from untrace.ir import all_equations
from untrace.reduction import driver, search, trials
from untrace.reduction import journal as journals
from untrace.reduction.outcome import Outcome
from untrace.reduction.workers import running

PROGRAM = """
from tests.reduction.programs import deep

program, arguments = deep()
"""


def names(reduction):
    return [eqn.name for eqn in all_equations(reduction.program.block)]


def test_workers_are_killed():
    function, args = deep()
    judged, killers = [], []

    def kill():
        time.sleep(0.1)
        for server in [*running._busy, *running._idle]:
            server.process.kill()

    def notify(kind, facts):
        judged.append(kind)
        if kind == "judged" and judged.count(kind) % 2:
            killers.append(threading.Thread(target=kill))
            killers[-1].start()

    reduction = untrace.reduce(function, keep="nan()", notify=notify)(*args)
    for killer in killers:
        killer.join()
    assert killers
    assert names(reduction) == ["log"]


def test_the_predicate_hangs(tmp_path):
    script = tmp_path / "check.sh"
    script.write_text(
        "#!/bin/sh\ngrep -q 'tanh\\|erf' $1 && sleep 100\ngrep -q 'log(' $1\n"
    )
    script.chmod(0o755)
    function, args = deep(2)
    keep = untrace.keep.command(f"{script} {{file}}", timeout_s=0.5)
    with pytest.raises(untrace.KeepError):  # it hangs on the whole program
        untrace.reduce(function, keep=keep)(*args)
    script.write_text(
        "#!/bin/sh\ngrep -q 'log(' $1 || exit 1\ngrep -q 'sin(' $1 || sleep 100\n"
    )

    def program(x):
        import jax.numpy as jnp

        return jnp.exp(jnp.log(jnp.sin(x) + 1.0))

    reduction = untrace.reduce(program, keep=keep)(1.0)
    assert sorted(names(reduction)) == ["log", "sin"]


def test_the_disk_is_full(monkeypatch, tmp_path):
    function, args = deep()
    calls = []
    write = journals.write_text

    def full(path, text):
        calls.append(path)
        if 2 < len(calls) < 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, text)

    monkeypatch.setattr(journals, "write_text", full)
    folder = tmp_path / "journal"
    reduction = untrace.reduce(function, keep="nan()", journal=folder)(*args)
    assert names(reduction) == ["log"]
    facts = json.loads((folder / "journal.json").read_text())
    assert "log" in (folder / facts["best"]).read_text()


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_the_failure_shows_in_three_runs_of_ten(tmp_path):
    script = tmp_path / "check.sh"
    script.write_text(
        "#!/bin/sh\ngrep -q 'log(' $1 || exit 1\n"
        "n=$(od -An -N2 -tu2 /dev/urandom)\ntest $((n % 10)) -lt 3\n"
    )
    script.chmod(0o755)
    function, args = deep(2)
    keep = untrace.keep.command(f"{script} {{file}}")
    reduction = untrace.reduce(function, keep=keep, confirm=20)(*args)
    assert names(reduction) == ["log"]


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_what_fails_sometimes_is_not_taken_for_what_always_fails(tmp_path):
    script = tmp_path / "check.sh"
    script.write_text(
        "#!/bin/sh\ngrep -q 'log(' $1 || exit 1\ngrep -q 'sin(' $1 && exit 0\n"
        "n=$(od -An -N2 -tu2 /dev/urandom)\ntest $((n % 10)) -lt 3\n"
    )
    script.chmod(0o755)

    def program(x):
        return jnp.exp(jnp.log(jnp.sin(x) + 1.0)) * 2

    keep = untrace.keep.command(f"{script} {{file}}")
    reduction = untrace.reduce(program, keep=keep, confirm=10)(1.0)
    assert sorted(names(reduction)) == ["log", "sin"]


def test_after_a_fall_back_the_figures_are_those_of_the_result(tmp_path):
    script = tmp_path / "check.sh"
    seen = tmp_path / "seen"  # what has no `sin` fails once, and never again
    script.write_text(
        "#!/bin/sh\ngrep -q 'log(' $1 || exit 1\ngrep -q 'sin(' $1 && exit 0\n"
        f"test -e {seen} && exit 1\ntouch {seen}\n"
    )
    script.chmod(0o755)

    def program(x):
        return jnp.exp(jnp.log(jnp.sin(x) + 1.0)) * 2

    keep = untrace.keep.command(f"{script} {{file}}")
    reduction = untrace.reduce(program, keep=keep)(1.0)
    assert sorted(names(reduction)) == ["log", "sin"]
    assert reduction.n_equations == len(names(reduction))


@pytest.mark.corpus
def test_the_process_is_killed_twenty_times(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    folder, output = tmp_path / "journal", tmp_path / "repro.py"
    start = [
        *("reduce", "program.py", "program(*arguments)"),
        *("--keep", "nan()", "--journal", str(folder)),
    ]
    resume = ["reduce", "--resume", str(folder)]
    rng = random.Random(0)
    killed, sizes = 0, []
    while killed < 20:
        begun = (folder / "journal.json").exists()
        if begun:
            facts = json.loads((folder / "journal.json").read_text())
            assert (folder / facts["best"]).exists()
            sizes.append(facts["history"][-1][3] if facts.get("history") else [10**9])
        process = cli(tmp_path, [*(resume if begun else start), "-o", str(output)])
        try:
            process.wait(rng.uniform(1.5, 5.0) if begun else 30 if killed else 6.0)
            break  # it came to its end
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
    assert sizes == sorted(sizes, reverse=True)
    if process.returncode != 0:
        process = cli(tmp_path, [*resume, "-o", str(output)])
        assert process.wait(120) == 0, process.stderr.read()
    assert "log" in output.read_text()
    assert subprocess.run([sys.executable, output], capture_output=True).returncode


def cli(folder, arguments):
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-m", "untrace", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupt_ends_with_the_best_so_far(tmp_path):
    function, args = deep()
    started = time.monotonic()

    def interrupt(kind, facts):
        if kind == "accepted" and facts["search"].stats.accepted == 1:
            raise KeyboardInterrupt

    reduction = untrace.reduce(function, keep="nan()", notify=interrupt)(*args)
    assert reduction.n_equations < reduction.start
    assert "it was interrupted" in reduction.summary()
    assert time.monotonic() - started < 100


def test_limits_end_with_the_best_so_far():
    function, args = deep()
    reduction = untrace.reduce(function, keep="nan()", max_runs=3)(*args)
    assert reduction.stats.runs == 3
    assert "3 runs were made" in reduction.summary()


@pytest.mark.corpus
def test_a_second_interrupt_still_writes_the_best(monkeypatch):
    function, args = deep(3)

    def interrupt(kind, facts):
        if kind == "accepted":
            raise KeyboardInterrupt

    def again(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "confirmed", again)
    monkeypatch.setattr(reducing, "with_needed", None)  # nothing more is run
    monkeypatch.setattr(reducing, "reproducer", None)
    reduction = untrace.reduce(function, keep="nan()", notify=interrupt)(*args)
    assert "not run once more" in reduction.summary()
    assert "def function(" in str(reduction.source)


def test_nothing_more_is_run_for_what_was_interrupted(monkeypatch):
    monkeypatch.setattr(trials, "run_job", None)
    judge = trials.Judge(untrace.keep.nan(), is_stopped=True)
    assert judge.run(None).status == "lost"


def test_workers_that_never_come_back_end_a_reduction(monkeypatch):
    function, args = deep(3)
    run = trials.run_job
    started = []

    def lost(job):
        started.append(job)
        return run(job) if len(started) < 12 else Outcome("lost", message="killed")

    monkeypatch.setattr(trials, "run_job", lost)
    reduction = untrace.reduce(function, keep="nan()")(*args)
    assert "workers kept failing" in reduction.summary()
    assert len(started) < 60
    assert reduction.n_equations < reduction.start


def test_a_candidate_that_cannot_be_written_is_lost_alone(monkeypatch):
    prepare, seen = search.prepare, []

    def broken(program, keep):
        seen.append(program)
        if len(seen) % 3 == 1:
            raise RuntimeError("no text")
        return prepare(program, keep)

    monkeypatch.setattr(search, "prepare", broken)
    function, args = deep(3)
    reduction = untrace.reduce(function, keep="nan()")(*args)
    assert reduction.n_equations <= 2
    assert "the pass" not in reduction.summary()
