"""Where a Triton pointer points: its offsets taken apart into axes with strides, and masks into the extents of axes."""

from __future__ import annotations

from typing import Any

from toprope.tile.expressions import Source
from toprope.tile.from_triton.offsets import Atoms, Cut, Offsets, Place
from toprope.tile.language import Param, TileError
from toprope.tile.program import ByIndex, Index, Number
from toprope.tile.reader import Reader


class Places(Reader):
    """Knows the axes of one Triton function; an axis is a range of lanes and what it begins at."""

    def __init__(self, source: Source, params: dict[str, Param], ones: frozenset[str]) -> None:
        super().__init__(source, params, {}, resident=False)
        self.ones = {"1", *ones}  # strides that are 1, by number or by what a launch gives
        self.atoms = Atoms()
        self.extents: dict[tuple[str, int], Number] = {}
        self.made_axes: dict[tuple[str, int], Index] = {}
        self.loop_extents: dict[str, tuple[Offsets, int]] = {}
        self.strides: dict[tuple[str, tuple[Index | ByIndex, ...]], tuple[str, ...]] = {}
        self.at_most: list[tuple[str, int | str]] = []  # (expression, bound) that a launch must keep
        self.multiples: list[tuple[str, int]] = []

    def located(self, place: Any, mask: Any) -> tuple[Index | ByIndex, ...]:
        """A pointer as steps of axes with their strides, rows before columns."""
        if not isinstance(place, Place):
            raise TileError("the address is not a pointer plus offsets", cure="add offsets to a pointer argument")
        for cut in mask or ():
            self.cut(cut)
        terms, axes = dict(place.offsets.terms), list[tuple[int, Index | ByIndex, str]]()
        for (atom, names), c in place.offsets.terms.items():
            if atom.startswith("range:"):
                del terms[(atom, names)]
                size = self.atoms.size(atom)
                begin = next(
                    (
                        m
                        for m, d in terms.items()
                        if m[1] == names and d == c * size and m[0].startswith(("pid", "loop:"))
                    ),
                    ("", ()),
                )
                if begin[0]:  # ("", ()) is the constant of the offset, which stays
                    del terms[begin]
                axes.append((int(atom[-1]) if "@" in atom else 1, self.axis(begin[0], size), _stride(c, names)))
        lanes_left = bool(axes)
        for (atom, names), c in list(terms.items()):
            if atom:
                del terms[(atom, names)]
                axes.append(self.single(atom, _stride(c, names), lanes_left))
        positions = [p for p, _, _ in axes if p >= 0]
        if len(set(positions)) != len(positions):
            raise TileError("two indices along one axis", cure="say which is which with [:, None] and [None, :]")
        axes.sort(key=lambda a: a[0])
        where = tuple(i for _, i, _ in axes) or (self.axis("pid0", 1),)
        strides = (*(s for _, _, s in axes), *([] if axes else ["0"]), Offsets(terms).text())
        if self.strides.setdefault((place.array, where), strides) != strides:
            raise TileError(f"{place.array} is read along one axis with two strides", cure="use another program for it")
        return where

    def single(self, atom: str, stride: str, beside_lanes: bool) -> tuple[int, Index | ByIndex, str]:
        """A program id alone, or the entries of an index block."""
        if atom.startswith("pid"):
            return -1, self.axis(atom, 1), stride
        if atom.startswith("entry:"):
            entry = self.atoms.entry(atom)
            return -1 if entry.unit else int(atom[-1]) if "@" in atom else 0 if beside_lanes else 1, entry, stride
        raise TileError(
            "a loop counter that moves by something else than a block", cure="move by the block's size in each step"
        )

    def axis(self, begin: str, size: int) -> Index:
        """The axis of a range that begins at a program id or loop counter times its size, or at 0."""
        key = (begin, size)
        if key in self.made_axes:
            return self.made_axes[key]
        extent, name = self.extents.get(key), f"lanes{size}"
        if begin.startswith("pid:") and extent is None:
            raise TileError(
                "// or % of program ids without a mask", cure="mask the offsets made of them, or take them % extent"
            )
        if begin.startswith("pid"):
            name = f"program{begin[3:]}" if size == 1 else f"block{begin[3:]}"
            extent = extent or Number(f"grid{begin[3:]}" if size == 1 else f"(grid{begin[3:]} * {size})")
        elif begin:
            end, step = self.loop_extents[begin]
            name = begin[5:]
            if step != size:
                raise TileError(f"a loop in steps of {step} over blocks of {size}", cure="use one size for both")
            if extent is None:
                extent = Number(end.text())
                self.multiples.append((extent.text, size))
        elif extent is None:
            extent = Number(str(size), size)
        else:
            self.at_most.append((extent.text, size))
        self.made_axes[key] = self.new_index(name, extent, size, whole=not begin)
        return self.made_axes[key]

    def cut(self, cut: Cut) -> None:
        """A mask gives its axis an extent. Raises TileError for masks that are no extents."""
        terms = {(a.split("@")[0], n): c for (a, n), c in cut.difference.terms.items()}
        ranges = [a for a, _ in terms if a.startswith("range:")]
        size, begin = (self.atoms.size(ranges[0]) if ranges else 1), ""
        wrong = TileError("a mask that is not offsets < extent", cure="mask each axis with its own offsets < extent")
        if len(ranges) > 1 or (ranges and terms.pop((ranges[0], ())) != 1):
            raise wrong
        for (atom, names), c in list(terms.items()):
            if atom:
                if names or c != size or begin:
                    raise wrong
                begin = atom
                del terms[(atom, names)]
        extent = Number((Offsets(terms) * Offsets.number(-1)).text())
        if not ranges:
            self.at_most.append((f"grid{begin[3:]}", extent.text))
            return
        known = self.extents.setdefault((begin, size), extent)
        made = self.made_axes.get((begin, size))
        if known != extent or (made is not None and made.extent != extent):
            raise TileError(
                "one axis is masked with two extents, or not everywhere",
                cure="use one mask for all loads and stores of an axis",
            )


def _stride(factor: int, names: tuple[str, ...]) -> str:
    return Offsets({("", names): factor}).text()
