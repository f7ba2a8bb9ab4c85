"""Run a user's command on a program's file; its exit status is the outcome."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from untrace.reduction.outcome import Job, Outcome
from untrace.reduction.wording import is_module_name

_TAIL_BYTES = 8_192


def run_command(job: Job) -> Outcome:
    """Run a shell command with `{file}` replaced by the path of the program's file.

    Returns:
      An outcome with status "ok" and the exit status, "died", "timeout", or "lost" if
      the command could not be started.
    """
    try:
        return _run(job)
    except OSError as error:  # the disk may be full
        return Outcome("lost", message=f"cannot run {job.run.command}: {error}")


def _run(job: Job) -> Outcome:
    with (
        tempfile.TemporaryDirectory(
            prefix="untrace-", ignore_cleanup_errors=True
        ) as folder,
        tempfile.TemporaryFile() as errors,
    ):
        stem = f"{job.name}_program" if is_module_name(job.name) else job.name
        path = Path(folder) / f"{stem}.py"
        path.write_text(job.file_text or job.text, encoding="utf-8")
        if job.sidecar:
            path.with_suffix(".safetensors").write_bytes(job.sidecar)
        command = job.run.command.replace("{file}", shlex.quote(str(path)))
        began = time.monotonic()
        process = _start(command, job, errors)
        is_late = False
        try:
            process.wait(job.run.timeout_s)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            _kill_group(process)
        fields: dict[str, Any] = {
            "stage": "run",
            "seconds": {"run": time.monotonic() - began},
            "stderr": _tail(errors),
        }
        if is_late:
            return Outcome("timeout", **fields)
        if process.returncode < 0:
            return Outcome("died", signal=-process.returncode, **fields)
        return Outcome("ok", exit_status=process.returncode, **fields)


def _start(command: str, job: Job, errors: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        env={**({} if job.run.is_whole_env else os.environ), **dict(job.run.env)},
        start_new_session=os.name == "posix",
    )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _tail(file: Any) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode(errors="replace")
