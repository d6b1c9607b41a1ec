"""toprope include: the folder of the header library."""

from __future__ import annotations

from toprope.vendor_paths import stand_alone


def main(argv: list[str]) -> int:
    """Print the folder to give to a C++ compiler: g++ -std=c++17 -I "$(toprope include)"."""
    print(stand_alone())
    return 0
