"""Why operations are refused that no template states."""

from __future__ import annotations

_DEVICES = (
    "exchanges values between devices",
    "Read the program that runs on one device; what JAX spreads over devices by its "
    "shardings holds no such operation before it is compiled.",
)
_HOST = (
    "exchanges values with the host",
    "What the host does is not in the module; lower the function without it.",
)
_QUANTISED = (
    "works on quantised types, which JAX does not have",
    "Read the program before it is quantised.",
)
_RUNNING = (
    "has a shape that is computed when it runs",
    "Lower or export the function for shapes that are known.",
)
_NONE = ("is an operation that JAX has no counterpart of", "")

REFUSALS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *("collective_broadcast", "collective_reduce", "cross-replica-sum"),
            "replica_id",
        ),
        _DEVICES,
    ),
    **dict.fromkeys(("infeed", "outfeed", "recv", "send"), _HOST),
    **dict.fromkeys(("uniform_dequantize", "uniform_quantize"), _QUANTISED),
    **dict.fromkeys(("set_dimension_size",), _RUNNING),
}


def why_refused(name: str) -> tuple[str, str]:
    """Return why an operation is not read, and what to do instead."""
    dialect, _, plain = name.partition(".")
    return REFUSALS.get(plain, _NONE) if dialect == "stablehlo" else _NONE
