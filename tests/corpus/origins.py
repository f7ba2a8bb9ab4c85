"""What a text of level "api" was written from."""

from __future__ import annotations


def origin(text: str) -> str:
    """Return "calls", "regions" (some parts from equations) or "equations" (all)."""
    header = " ".join(text.split('"""')[1].split())
    if "Written from its equations" in header:
        return "equations"
    return "regions" if "is written from its equations" in header else "calls"
