"""Findings as text, JSON, SARIF 2.1.0 (code scanning in CI) or the vendor's sanitizer lines (for scripts that read those)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toprope.check.vendor_lines import vendor_lines
from toprope.commandline import SARIF, document, version
from toprope.errors import BadInput
from toprope.finding import Finding, Place, Severity, codes
from toprope.trace import Trace

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "advice")
_SARIF_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}


def render(form: str, findings: Sequence[Finding], trace: Trace, more: Mapping[str, Any] | None = None) -> str:
    """The findings of one run as "text", "json", "sarif", "mssanitizer" or "gcc"; `more` goes into the JSON. Raises BadInput for another form."""
    forms: dict[str, Callable[[Sequence[Finding], Trace], str]] = {
        "text": text,
        "json": lambda findings, trace: as_json(findings, trace, more),
        "sarif": sarif,
        "mssanitizer": vendor_lines,
        "gcc": compiler_lines,
    }
    if form not in forms:
        raise BadInput(f"there is no output form {form!r}", cure="use one of " + ", ".join(forms))
    return forms[form](findings, trace)


def at_least(findings: Sequence[Finding], severity: str) -> list[Finding]:
    """The findings that are `severity` or worse ("error", "warning", "advice"). Raises BadInput for another word."""
    if severity not in SEVERITIES:
        raise BadInput(f"there is no severity {severity!r}", cure="use one of " + ", ".join(SEVERITIES))
    return [f for f in findings if SEVERITIES.index(f.severity) <= SEVERITIES.index(severity)]


def text(findings: Sequence[Finding], trace: Trace) -> str:
    """For a person: every finding, then one line that counts them."""
    counts = [(s, sum(f.severity == s for f in findings)) for s in SEVERITIES]
    named = [f"{n} {s}{'' if n == 1 or s == 'advice' else 's'}" for s, n in counts if n]
    total = f"{trace.kernel}: {', '.join(named)}" if named else f"{trace.kernel}: no findings"
    return "\n\n".join([*(str(f) for f in findings), total])


def compiler_lines(findings: Sequence[Finding], trace: Trace) -> str:
    """A line per finding as compilers write them, for editors: FILE:LINE:COLUMN: error: message; its other places follow as notes."""
    out = []
    for f in findings:
        first, *others = f.places or (Place(trace.sites[0].file if trace.sites else trace.kernel, 1, "", "", ""),)
        kind = "note" if f.severity == "advice" else f.severity
        said = " ".join(f.message.split())
        out.append(f"{first.file}:{first.line}:1: {kind}: {said} [{f.code}] cure: {' '.join(f.cure.split())}")
        out += [f"{p.file}:{p.line}:1: note: {p.action or p.op} [{f.code}]" for p in others]
    return "\n".join(out)


def as_json(findings: Sequence[Finding], trace: Trace, more: Mapping[str, Any] | None = None) -> str:
    """For programs: kernel, chip, blocks, and one object per finding. Keys are stable."""
    body = {"kernel": trace.kernel, "soc": trace.soc, "blocks": trace.blocks, "ended_early": bool(trace.signal)}
    return document("check", body | {"findings": [_plain(f) for f in findings]} | dict(more or {}))


def _plain(finding: Finding) -> dict[str, Any]:
    places = [
        {"file": p.file, "line": p.line, "text": p.text(), "op": p.op, "pipe": p.pipe, "action": p.action}
        for p in finding.places
    ]
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "places": places,
        "cure": finding.cure,
        "count": finding.count,
        "cores": list(finding.cores),
        "cycles_at_stake": finding.cycles_at_stake,
        "bytes_at_stake": finding.bytes_at_stake,
        "data": finding.data,
    }


def sarif(findings: Sequence[Finding], trace: Trace | None, root: Path | None = None) -> str:
    """A SARIF 2.1.0 log. File names are relative to `root` (the current folder) where they lie inside it.

    Without a trace the findings are those of a whole program.
    """
    base = (root or Path.cwd()).resolve()
    known = sorted({f.code for f in findings})
    rules = [_sarif_rule(name) for name in known]
    results = [_sarif_result(f, known.index(f.code), base) for f in findings]
    run = {
        "tool": {
            "driver": {
                "name": "toprope",
                "version": version(),
                "informationUri": "https://pypi.org/project/toprope",
                "rules": rules,
            }
        },
        "properties": {"kernel": trace.kernel, "soc": trace.soc, "blocks": trace.blocks} if trace else {},
        "results": results,
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_rule(name: str) -> dict[str, Any]:
    row = codes().get(name)
    if row is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": row.rule},
        "help": {"text": row.cure},
        "defaultConfiguration": {"level": _SARIF_LEVELS[row.severity]},
    }


def _sarif_result(finding: Finding, rule_index: int, base: Path) -> dict[str, Any]:
    # The last place is where the mistake shows; the earlier ones explain it.
    locations = [_sarif_location(p.file, p.line, f"{p.op} {p.action}".strip(), base) for p in finding.places]
    shown = finding.message + (f"\nCure: {finding.cure}" if finding.cure else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": shown},
        "locations": locations[-1:] if finding.code.startswith("race") else locations[:1],
        "occurrenceCount": finding.count,
    }
    others = locations[:-1] if finding.code.startswith("race") else locations[1:]
    if others:
        result["relatedLocations"] = others
    return result


def _sarif_location(file: str, line: int, message: str, base: Path) -> dict[str, Any]:
    path = Path(file).resolve()
    inside = path.is_relative_to(base)
    artifact = {"uri": path.relative_to(base).as_posix() if inside else path.as_uri()}
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": max(1, line)}}
    }
    if message:
        location["message"] = {"text": message}
    return location
