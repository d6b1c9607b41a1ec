"""When each instruction of a trace would run on the chip: `predict(trace, soc) -> Timeline`. Why it is so: docs/design/timing.md."""

from toprope.timing.prediction import predict
from toprope.timing.timeline import STALLS, Timeline, Traffic

__all__ = ["STALLS", "Timeline", "Traffic", "predict"]
