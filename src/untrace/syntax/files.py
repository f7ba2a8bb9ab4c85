"""Write files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: Path, content: Iterable[bytes]) -> None:
    """Write a file through a temporary one beside it; its mode is as for any new file.

    Raises:
      OSError: If it cannot be written. What was there before is still there.
    """
    whole = aside(path)
    try:
        # Not `tempfile`, whose files are for the owner alone.
        with whole.open("xb") as file:
            file.writelines(content)
        os.replace(whole, path)
    except BaseException:  # also on Ctrl-C nothing half-written may stay
        whole.unlink(missing_ok=True)
        raise


def aside(path: Path) -> Path:
    """Return a path beside another one that nothing has."""
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
