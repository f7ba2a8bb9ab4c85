"""Run jobs in worker processes; every end of a program is an outcome.

`run_job` keeps warm servers (see `server`) for each interpreter and environment, as many
as are needed at once, and lends each to one job at a time. A server that dies or is
killed in the middle of a job is replaced and the job run again.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading

from untrace.reduction.outcome import Job, Outcome, Run
from untrace.reduction.workers.commands import run_command
from untrace.reduction.workers.process import LostServer, Server

MAX_ATTEMPTS = 3
MAX_IDLE = 2 * (os.cpu_count() or 4)

_lock = threading.Lock()
_idle: list[Server] = []
_busy: set[Server] = set()
_n_closings = 0


def run_job(job: Job) -> Outcome:
    """Run a program as its job says, in a fresh process.

    Thread-safe; does not raise. Usable as a task of any executor.

    Returns:
      What happened. Its status is "lost" only if the machinery failed three times.
    """
    if job.run.action == "command":
        return run_command(job)
    outcome = Outcome("lost")
    before = _n_closings
    for _ in range(MAX_ATTEMPTS):
        outcome = _attempt(job)
        is_certain = outcome.status != "lost" and not _was_killed(outcome)
        if is_certain or _n_closings != before:
            break
    return outcome


def close_servers() -> None:
    """End all servers of this process, also in the middle of jobs: those are lost."""
    global _n_closings
    with _lock:
        _n_closings += 1
        servers = [*_idle, *_busy]
        _idle.clear()
        _busy.clear()
    for server in servers:
        server.close()


atexit.register(close_servers)


def _was_killed(outcome: Outcome) -> bool:
    """Whether someone killed the program, which it may have done itself."""
    if not hasattr(signal, "SIGKILL"):
        return False
    return outcome.status == "died" and outcome.signal == signal.SIGKILL


def _attempt(job: Job) -> Outcome:
    server = None
    try:
        server = _borrow(job.run)
        outcome = server.ask(job)
    except LostServer as error:
        if server is not None:
            _discard(server)
        return Outcome("lost", message=str(error))
    except BaseException:  # Ctrl-C: the server is in the middle of something
        if server is not None:
            _discard(server)
        raise
    _give_back(server)
    return outcome


def _borrow(run: Run) -> Server:
    key = (run.python or sys.executable, run.env, run.is_whole_env)
    with _lock:
        for server in reversed(_idle):
            if server.key == key and server.is_alive():
                _idle.remove(server)
                _busy.add(server)
                return server
    try:
        return Server(*key, tell=_note_busy)
    except BaseException:
        with _lock:
            _busy.difference_update([s for s in _busy if s.process.poll() is not None])
        raise


def _note_busy(server: Server) -> None:
    """List a server while it starts: it may have to be closed then."""
    with _lock:
        _busy.add(server)


def _give_back(server: Server) -> None:
    with _lock:
        _busy.discard(server)
        if server.is_alive():
            _idle.append(server)
        surplus = _idle[:-MAX_IDLE]
        del _idle[:-MAX_IDLE]
    for old in surplus:
        old.close()


def _discard(server: Server) -> None:
    with _lock:
        _busy.discard(server)
    server.close()


def _forget() -> None:
    """Leave the servers of a process that we were forked from to it."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    _busy.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
