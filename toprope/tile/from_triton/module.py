"""Modules that stand where triton is not installed, so that a file with `import triton` loads unchanged and its launches run here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from toprope.kernel import DEFAULT_SOC, Run
from toprope.soc import load as load_soc
from toprope.tile.from_triton.kernel import TritonKernel
from toprope.tile.from_triton.source import Config, next_power_of_2
from toprope.tile.from_triton.types import TYPES
from toprope.tile.language import TileError

_LANGUAGE = (
    "triton.language", "triton.language.math", "triton.language.extra", "triton.language.extra.libdevice", "triton.language.standard",
    "triton.language.extra.cuda", "triton.language.extra.cuda.libdevice",
)  # fmt: skip


class JitFunction:
    """What @triton.jit makes of a function: `f[grid](...)` launches it, on NumPy (level A) or as the emitted kernel."""

    def __init__(self, fn: Callable[..., Any], emitted: bool, soc: str) -> None:
        self.fn, self.emitted, self.soc = fn, emitted, soc
        self.__name__ = getattr(fn, "__name__", "kernel")
        self.runs: list[Run] = []
        self._kernel: TritonKernel | None = None

    @property
    def kernel(self) -> TritonKernel:
        """The kernel, read at its first use, because helpers may be defined behind it."""
        if self._kernel is None:
            self._kernel = TritonKernel(self.fn)
        return self._kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **named: Any) -> None:
            if self.emitted:
                self.runs.append(self.kernel.run(grid, *arguments, soc=self.soc, **named))
            else:
                self.kernel[grid](*arguments, **named)

        return launch

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TileError(f"{self.__name__} is called outside a kernel", cure=f"launch it: {self.__name__}[grid](...)")


class Constant:
    """tl.constexpr: an annotation, or a number of a module."""

    def __init__(self, value: Any) -> None:
        self.value = getattr(value, "value", value)


Constant.__name__ = "constexpr"


class _Word(ModuleType):
    """A name of triton.language: it may be passed on and imported from; called it is inside kernels only."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Word(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TileError(f"{self.__name__} outside a kernel", cure="call it in a @triton.jit function")


def stand_in(*, emitted: bool = False, soc: str = DEFAULT_SOC) -> ModuleType:
    """Put modules called triton in the place of missing ones, and return triton.

    Files with `import triton` then load unchanged, and `kernel[grid](...)` evaluates level A; with `emitted` the emitted Ascend C
    runs on the software NPU, and its Runs collect in `kernel.runs`. Raises TileError when the real triton is installed.
    """
    present = sys.modules.get("triton")
    if present is None and importlib.util.find_spec("triton") is not None:
        raise TileError("triton is installed", cure="pass its functions to tile.triton(function)")
    if present is not None and not getattr(present, "stands_in", False):
        raise TileError("triton is imported", cure="pass its functions to tile.triton(function)")
    made = ModuleType("triton")
    made.__dict__.update(_contents(emitted, soc))
    made.__path__ = []
    sys.modules["triton"] = made
    for name in _LANGUAGE:
        module = _Word(name)
        module.__dict__.update({**TYPES, "constexpr": Constant, "__path__": []})
        sys.modules[name] = module
        owner, _, last = name.rpartition(".")
        sys.modules[owner].__dict__[last] = module
    for name in ("runtime", "testing"):
        sys.modules[f"triton.{name}"] = getattr(made, name)
    return made


def remove_stand_in() -> None:
    """Take the modules away again."""
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        if getattr(sys.modules["triton"], "stands_in", False) and name != "triton":
            del sys.modules[name]
    if getattr(sys.modules.get("triton"), "stands_in", False):
        del sys.modules["triton"]


def _contents(emitted: bool, soc: str) -> dict[str, Any]:
    def jit(fn: Callable[..., Any] | None = None, **_: Any) -> Any:
        return JitFunction(fn, emitted, soc) if fn is not None else lambda f: JitFunction(f, emitted, soc)

    def unchanged(*_: Any, **__: Any) -> Callable[[Any], Any]:
        return lambda kernel: kernel  # the decorators are read from the source

    return {
        "stands_in": True, "jit": jit, "autotune": unchanged, "heuristics": unchanged, "Config": Config, "__version__": "3.0.0",
        "cdiv": lambda a, b: -(-int(a) // int(b)), "next_power_of_2": next_power_of_2, "runtime": _runtime(soc), "testing": _testing(),
    }  # fmt: skip


def _runtime(soc: str) -> ModuleType:
    """What tutorials ask of the device: cores of the chip, tensors on the CPU."""
    cores = int(load_soc(soc).number("cores.aiv"))
    target = SimpleNamespace(backend="npu", arch=soc, warp_size=1)
    device = SimpleNamespace(get_device_properties=lambda _: {"multiprocessor_count": cores, "num_vectorcore": cores})
    active = SimpleNamespace(
        get_current_target=lambda: target,
        get_active_torch_device=lambda: "cpu",
        get_current_device=lambda: 0,
        utils=device,
    )
    module = ModuleType("triton.runtime")
    module.__dict__["driver"] = SimpleNamespace(active=active)
    return module


def _testing() -> ModuleType:
    def no_bench(*_: Any, **__: Any) -> Any:
        raise TileError("triton.testing measures a GPU", cure="ask kernel.run(...).timeline for the predicted time")

    module = ModuleType("triton.testing")
    report = SimpleNamespace(run=no_bench)
    module.__dict__.update(
        do_bench=no_bench, perf_report=lambda _: lambda function: report, Benchmark=lambda **k: SimpleNamespace(**k)
    )
    return module
