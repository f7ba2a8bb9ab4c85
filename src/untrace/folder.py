"""Where this package is installed: frames and files of its own are told apart by it."""

from __future__ import annotations

import os

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
