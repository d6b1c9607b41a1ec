"""Fixtures of the serving tests."""

from __future__ import annotations

import os

# Before torch is imported: threads that spin while they wait starve each other when tests run side by side.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
