"""Predictions side by side: in this process, in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from toprope.errors import BadInput
from toprope.tune.measure import Measure
from toprope.tune.space import Point
from toprope.tune.subject import Recipe, open_subject


class Workers(Protocol):
    """Gives the measures of points, in their order."""

    def __call__(self, recipe: Recipe, points: Sequence[Point]) -> Iterator[Measure]:
        """Each measure as soon as it and those before it are there."""


def measure(recipe: Recipe, point: Point) -> Measure:
    """One prediction, in whatever process this is."""
    return open_subject(recipe).measure(point)


@contextmanager
def workers(where: str, count: int) -> Iterator[Workers]:
    """`where` "local" or "ray"; one local worker is this process. Raises BadInput where Ray is not installed."""
    if where == "ray":
        with _on_ray(count) as found:
            yield found
    elif count <= 1:
        yield lambda recipe, points: (measure(recipe, p) for p in points)
    else:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and loaded kernels
        with ProcessPoolExecutor(count, mp_context=context) as pool:
            yield lambda recipe, points: pool.map(measure, [recipe] * len(points), points)


@contextmanager
def _on_ray(count: int) -> Iterator[Workers]:
    try:
        import ray  # optional: `pip install "toprope[ray]"`
    except ImportError as error:
        raise BadInput("--on ray, and Ray is not installed", cure='pip install "toprope[ray]"') from error
    address = os.environ.get("RAY_ADDRESS")
    if not ray.is_initialized():
        ray.init(
            address=address,
            num_cpus=None if address else count,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    remote: Any = ray.remote(num_cpus=1)(measure)

    def run(recipe: Recipe, points: Sequence[Point]) -> Iterator[Measure]:
        for reference in [remote.remote(recipe, dict(p)) for p in points]:
            yield ray.get(reference)

    try:
        yield run
    finally:
        ray.shutdown()
