"""Worker processes: run programs that crash, hang and exhaust memory, and tell how."""

from untrace.reduction.workers.running import close_servers, run_job

__all__ = ["close_servers", "run_job"]
