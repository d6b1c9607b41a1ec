"""toprope include: the folder of the header library."""

from __future__ import annotations

from toprope.build import INCLUDE


def main(argv: list[str]) -> int:
    """Print the folder to give to a C++ compiler: g++ -std=c++17 -I "$(toprope include)"."""
    print(INCLUDE)
    return 0
