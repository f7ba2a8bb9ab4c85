"""Simulate eight devices, which must be asked for before JAX is used."""

from __future__ import annotations

import os

_FLAG = "--xla_force_host_platform_device_count"

if _FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}=8".strip()
# A step that only makes text better must not fail in silence.
os.environ.setdefault("UNTRACE_STRICT", "1")
