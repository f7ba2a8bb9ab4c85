"""One server process, seen from the process that asks it.

Its streams are read by threads, which works where pipes cannot be polled. Where there
is no fork the server runs one job in its own process, and is watched from here.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from untrace.reduction.outcome import Job, Outcome, Run, outcome_from
from untrace.reduction.workers import wire

SCRIPT = Path(__file__).with_name("server.py")
START_S = 120.0
"""Longest time to import JAX in."""
GRACE_S = 15.0
"""How much longer than its job a server may take before it counts as hung."""
HAS_FORK = sys.platform.startswith("linux")
"""Elsewhere a fork of a process with JAX in it is not safe, or there is none."""

Env = tuple[tuple[str, str], ...]
_Frame = tuple[dict[str, Any], tuple[wire.Encoded, ...]]

_SETTINGS = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
"""What is compiled once must fail to compile, or be slow, again."""


class LostServer(Exception):
    """The server ended, or could not be started; its job has to be run again."""


class Server:
    """A process that runs jobs, one at a time.

    Args:
      python: Path of its interpreter.
      env: Environment variables beyond those of this process.
      is_whole_env: Nothing of the environment of this process is inherited.
      forks: Fork a child for every job; otherwise the process serves a single job.
      tell: Told of it as soon as there is a process, which takes seconds to import JAX.

    Raises:
      LostServer: If it does not start; the message says why.
    """

    def __init__(
        self,
        python: str,
        env: Env,
        is_whole_env: bool = False,
        forks: bool = HAS_FORK,
        tell: Callable[[Server], None] | None = None,
    ) -> None:
        self.key = (python, env, is_whole_env)
        self.forks = forks
        self.is_own = python == sys.executable
        inherited = {} if is_whole_env else _inherited(self.is_own)
        self.process = _start(python, {**inherited, **_SETTINGS, **dict(env)}, forks)
        self.frames: queue.Queue[_Frame | None] = queue.Queue()
        self.errors: collections.deque[bytes] = collections.deque(maxlen=8)
        self.child: int | None = None
        self.readers = [
            _start_thread(_read_frames, self.process.stdout, self.frames),
            _start_thread(_read_errors, self.process.stderr, self.errors),
        ]
        if tell is not None:
            tell(self)
        try:
            self._send({"path": self._path()})
            hello = self._next(time.monotonic() + START_S)
        except (queue.Empty, LostServer):
            hello = None
        except BaseException:
            self.close()
            raise
        if hello is None or not hello[0].get("hello"):
            self.close()
            raise LostServer(f"{python} does not start JAX: {self._last_words()}")
        self.jax_version = str(hello[0]["jax"])

    def is_alive(self) -> bool:
        """Whether it can take a job."""
        return self.forks and self.process.poll() is None

    def ask(self, job: Job) -> Outcome:
        """Run a job and return its outcome.

        Raises:
          LostServer: If the server ends before it answers.
        """
        header = {**_header(job), "path": self._path()}
        self._send(header, (*job.arrays, *_sidecar(job)))
        began = time.monotonic()
        grace = GRACE_S if self.forks else 0.0
        last: dict[str, Any] = {"stage": "load", "seconds": {}}
        while True:
            try:
                found = self._next(began + job.run.timeout_s + grace)
            except queue.Empty:
                self.close()
                return outcome_from({"status": "timeout", **last}, ())
            if found is None:
                return self._ended(last)
            header, arrays = found
            self.child = header.get("child", self.child)
            if header.get("final"):
                self.child = None
                return self._final({**last, **header}, arrays)
            if "stage" in header:
                last = header

    def close(self) -> None:
        """End the process and its children."""
        _kill_group(self.process.pid)
        with contextlib.suppress(OSError):
            self.process.kill()
        if self.child is not None:
            _kill_group(self.child)
        self.process.wait()
        for reader in self.readers:
            reader.join(1.0)  # a program's leftover may hold the pipe
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def _path(self) -> list[str]:
        """Where modules are now, which the program may have been told since the start."""
        return _search_path() if self.is_own else []

    def _final(
        self, header: dict[str, Any], arrays: tuple[wire.Encoded, ...]
    ) -> Outcome:
        if self.forks:
            return outcome_from(header, arrays)
        self.close()
        return outcome_from({**header, "stderr": self._last_words()}, arrays)

    def _ended(self, last: dict[str, Any]) -> Outcome:
        """Tell how the process ended: a loss, unless it was the program itself."""
        if self.forks:
            raise LostServer(f"a worker process ended: {self._last_words()}")
        status = self.process.wait()
        self.close()
        fields = {"status": "died", **last, "stderr": self._last_words()}
        which = {"signal": -status} if status < 0 else {"exit_status": status}
        return outcome_from({**fields, **which}, ())

    def _send(
        self, header: dict[str, Any], arrays: tuple[wire.Encoded, ...] = ()
    ) -> None:
        assert self.process.stdin is not None
        try:
            wire.write_frame(self.process.stdin, header, arrays)
        except (OSError, ValueError) as error:
            raise LostServer(f"a worker process ended: {self._last_words()}") from error

    def _next(self, deadline: float) -> _Frame | None:
        return self.frames.get(timeout=max(0.0, deadline - time.monotonic()))

    def _last_words(self) -> str:
        self.readers[1].join(0.2)
        return b"".join(self.errors).decode(errors="replace")[-8_192:]


def _sidecar(job: Job) -> tuple[wire.Encoded, ...]:
    """Send a file as one more array."""
    stored = np.frombuffer(job.sidecar, np.uint8)
    return (wire.encode(stored),) if job.sidecar else ()


def _header(job: Job) -> dict[str, Any]:
    run: Run = job.run
    return {
        "text": job.text,
        "name": job.name,
        "action": run.action,
        "under": run.under,
        "float64": run.float64,
        "wants": sorted(run.wants),
        "timeout_s": run.timeout_s,
        "memory_bytes": run.memory_bytes,
        "has_sidecar": bool(job.sidecar),
    }


def _inherited(is_own: bool) -> dict[str, str]:
    """Return the environment of this process, as far as it holds for another."""
    # Jobs that run at once share an accelerator.
    inherited = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    if not is_own:  # paths of our packages mean nothing to another installation
        for name in ("PYTHONPATH", "PYTHONHOME"):
            inherited.pop(name, None)
    return inherited


def _start(python: str, env: dict[str, str], forks: bool) -> subprocess.Popen[bytes]:
    command = [python, str(SCRIPT), *([] if forks else ["--once"])]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise LostServer(f"cannot start {python}: {error}") from error


def _search_path() -> list[str]:
    return [item or os.getcwd() for item in sys.path]


def _start_thread(target: Any, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def _read_frames(stream: IO[bytes], frames: queue.Queue[_Frame | None]) -> None:
    try:
        while (found := wire.read_frame(stream)) is not None:
            frames.put(found)
    except (wire.BrokenFrame, OSError, ValueError):
        pass
    frames.put(None)


def _read_errors(stream: IO[bytes], errors: collections.deque[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while part := stream.read1(65_536):  # type: ignore[attr-defined]
            errors.append(part[-8_192:])


def _kill_group(pid: int) -> None:
    if not hasattr(os, "killpg"):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
