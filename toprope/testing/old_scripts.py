"""Modules put before the installed ones for data scripts of other people: names that NumPy 2 dropped, and a stand-in for tensorflow's types."""

from pathlib import Path

SCRIPT_MODULES = Path(__file__).parent / "script_modules"
OLD_NUMPY = SCRIPT_MODULES / "old_numpy"  # a sitecustomize, which Python imports at its start
