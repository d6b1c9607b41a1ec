"""The toolkit's small commands: npu-smi and msopgen."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from toprope.errors import TopropeError
from toprope.soc import load


def npu_smi(argv: list[str]) -> int:
    """npu-smi info: the simulated card, in the columns that scripts read. Exit code 0, or 2 for another verb."""
    if argv[:1] not in ([], ["info"]):
        print(f"npu-smi: there is no {' '.join(argv)} for a simulated card; npu-smi info is there", file=sys.stderr)
        return 2
    soc = load(os.environ.get("TOPROPE_SOC") or "ascend910b1")
    name = soc.name.removeprefix("ascend").upper()
    total = int(soc.number("memory.gm_bytes")) >> 20
    count = int(os.environ.get("TOPROPE_DEVICES") or 1)
    line = "+---------------------------+---------------+----------------------------------------------------+"
    rows = [
        "+------------------------------------------------------------------------------------------------+",
        f"| {'npu-smi (toprope, simulated)':<47}Version: {'toprope':<38}|",
        line,
        f"| {'NPU   Name':<26}| {'Health':<14}| {'Power(W)    Temp(C)           Hugepages-Usage(page)':<51}|",
        f"| {'Chip':<26}| {'Bus-Id':<14}| {'AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)':<51}|",
        line.replace("-", "="),
    ]
    for i in range(count):
        rows.append(f"| {f'{i}     {name}':<26}| {'OK':<14}| {'-           -                 0    / 0':<51}|")
        rows.append(f"| {'0':<26}| {'simulated':<14}| {f'0           0    / 0          0    / {total}':<51}|")
        rows.append(line)
    print("\n".join(rows))
    return 0


def msopgen(argv: list[str]) -> int:
    """msopgen gen: an operator project from a JSON prototype, by the generator of toprope. The vendor's exit codes where they exist."""
    p = argparse.ArgumentParser(prog="msopgen")
    verbs = p.add_subparsers(dest="verb", required=True)
    gen = verbs.add_parser("gen", help="write an operator project")
    gen.add_argument("-i", dest="input", required=True, type=Path, help="the prototype (.json)")
    gen.add_argument("-f", dest="framework", default="aclnn")
    gen.add_argument("-c", dest="compute_unit", required=True, help="ai_core-Ascend910B1, ...")
    gen.add_argument("-lan", dest="language", default="py", choices=["py", "cpp"])
    gen.add_argument("-out", dest="output", default=Path("."), type=Path)
    gen.add_argument("-m", dest="mode", default="0", choices=["0", "1"])
    gen.add_argument("-op", dest="op", default="")
    options = p.parse_args(argv)
    if options.language != "cpp":
        print("msopgen: only -lan cpp (Ascend C) is written here", file=sys.stderr)
        return 17
    if not options.input.is_file():
        print(f"msopgen: there is no file {options.input}", file=sys.stderr)
        return 13
    from toprope.commands.new import main as new  # brings the generator with it

    try:
        words = [str(options.input), str(options.output), "--units", ",".join(_families(options.compute_unit))]
        return new([*words, *(["--op", options.op] if options.op else [])])
    except TopropeError as error:
        print(error, file=sys.stderr)
        return 16


def _families(units: str) -> list[str]:
    """The names that AddConfig takes, of msopgen's compute units: ai_core-Ascend910B1 -> ascend910b."""
    out = []
    for unit in units.lower().split(","):
        name = unit.partition("-")[2] or unit
        known = ("ascend910_93", "ascend910_95", "ascend910b", "ascend310p", "ascend310b", "ascend950", "ascend910")
        out.append(next((k for k in known if name.startswith(k)), name))
    return list(dict.fromkeys(out))
