"""Fixtures that every area shares."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Compiled kernels are shared by all test processes and runs, but not with the user's own cache.
os.environ.setdefault("TOPROPE_CACHE", str(Path(tempfile.gettempdir()) / "toprope-test-cache"))
