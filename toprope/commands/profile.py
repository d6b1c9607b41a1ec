"""toprope profile: where the time goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toprope.commandline import CRASHED, document
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, judged
from toprope.profile import diagnose
from toprope.report import flame, html, msprof, perfetto, summary, text


def main(argv: list[str]) -> int:
    """Exit code 0 done, 2 bad input, 3 the kernel crashed or hung. Findings do not change it: see `toprope check`."""
    p = parser("profile", "Predict the time of a kernel and show where it goes.")
    p.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="one self-contained page: bounds, advice, pipeline, memories, cost by line",
    )
    p.add_argument("--flame", type=Path, metavar="FILE", help="flame graph (SVG): kernel, function, line, operation")
    p.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="Chrome/Perfetto trace (ui.perfetto.dev, chrome://tracing, MindStudio Insight)",
    )
    p.add_argument(
        "--csv",
        type=Path,
        metavar="FOLDER",
        help="the files of msprof op (PipeUtilization.csv, ...) and visualize_data.bin for MindStudio Insight",
    )
    p.add_argument("--time-only", action="store_true", help="skip the arithmetic: faster, results are not computed")
    options = p.parse_intermixed_args(argv)
    return _profile(prepare(options))


def _profile(prepared: Prepared) -> int:
    if prepared.options.time_only:
        prepared.golden = None
    run, references = prepared.run()
    verdicts, complaint = judged(prepared, references)
    result = summary.of(run, verdicts, diagnose(run))
    options = prepared.options
    writers: tuple[tuple[Path | None, Callable[[Path], object]], ...] = (
        (options.html, lambda f: html.write(result, f)),
        (options.flame, lambda f: flame.write(run, f)),
        (options.trace, lambda f: perfetto.write(run, f)),
        (options.csv, lambda f: msprof.write(run, f)),
    )
    for path, write in writers:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
    if options.json:
        print(document("profile", summary.as_json(result, complaint)))
    else:
        text.show(result, complaint=complaint)
        for path in filter(None, (options.html, options.flame, options.trace, options.csv)):
            print(f"wrote {path}")
    if complaint is not None:
        raise complaint
    return CRASHED if run.trace.signal else 0
