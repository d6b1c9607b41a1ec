"""Every output form, severity levels, and suppressions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.check.pages import FOLDER, Case, cases, compiled
from toprope.check import output, suppress
from toprope.errors import BadInput
from toprope.finding import Finding
from toprope.kernel import Run


def case(page: str, name: str) -> Case:
    return next(c for c in cases(FOLDER / f"{page}.md") if c.name == name)


@pytest.fixture(scope="module")
def racy() -> Run:
    c = case("races_between_cores", "reads_without_waiting")
    return compiled(c)[c.name][2](*c.values())


@pytest.fixture(scope="module")
def late() -> Run:
    c = case("races_between_pipes", "copies_out_too_early")
    return compiled(c)[c.name][1](*c.values())


def test_text_reads_like_the_manual(late: Run) -> None:
    lines = output.text(late.findings, late.trace).splitlines()
    assert lines[0] == "race-unordered-pipes: DataCopy reads UB[1024:2048] while Add may still be writing it"
    assert re.match(r"  \w+\.cpp:\d+   Add\(b, a, a, 256\);.*pipe V      writes UB\[1024:2048\]$", lines[1])
    assert re.match(
        r"  \w+\.cpp:\d+   DataCopy\(gm<float>\(z\), b, 256\);.*pipe MTE3   reads UB\[1024:2048\]$", lines[2]
    )
    assert lines[3].startswith("cure: order them with SetFlag/WaitFlag<HardEvent::V_MTE3>")
    assert lines[-1] == "copies_out_too_early: 1 error"


def test_a_finding_on_several_cores_is_one_finding(racy: Run) -> None:
    races = [f for f in racy.findings if f.code == "race-between-cores"]
    assert len(races) == 1
    assert "core 1 (aiv)" in races[0].message or "core 0 (aiv)" in races[0].message


def test_most_severe_first(racy: Run) -> None:
    ranks = [output.SEVERITIES.index(f.severity) for f in racy.findings]
    assert ranks == sorted(ranks) and len(set(ranks)) > 1


def test_levels(racy: Run) -> None:
    assert {f.severity for f in output.at_least(racy.findings, "error")} == {"error"}
    assert len(output.at_least(racy.findings, "advice")) == len(racy.findings)
    with pytest.raises(BadInput, match="no severity"):
        output.at_least(racy.findings, "fatal")


def test_json(late: Run) -> None:
    told = json.loads(output.render("json", late.findings, late.trace))
    assert told["kernel"] == "copies_out_too_early" and told["soc"] == "ascend910b1"
    (finding,) = told["findings"]
    assert finding["code"] == "race-unordered-pipes" and finding["count"] == 1
    assert [p["pipe"] for p in finding["places"]] == ["V", "MTE3"]
    assert finding["data"] | {"begin": 1024, "end": 2048, "space": "UB", "hazard": "RAW"} == finding["data"]


def test_sarif(late: Run) -> None:
    log = json.loads(output.sarif(late.findings, late.trace, Path(late.findings[0].places[0].file).parent))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "race-unordered-pipes"
    assert result["level"] == "error"
    shown = result["locations"][0]["physicalLocation"]
    assert shown["region"]["startLine"] == late.findings[0].places[-1].line
    assert not shown["artifactLocation"]["uri"].startswith(("/", "file:"))
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == late.findings[0].places[0].line


def test_vendor_lines(late: Run) -> None:
    lines = output.render("mssanitizer", late.findings, late.trace).splitlines()
    assert lines[0] == "====== ERROR: Potential RAW hazard detected at UB in copies_out_too_early on device 0:"
    assert re.match(r"====== +PIPE_V Write at RAW\(\)\+0x400 in block 0 \(aiv\) on device 0", lines[1])
    assert re.match(r"====== +PIPE_MTE3 Read at RAW\(\)\+0x400 in block 0 \(aiv\)", lines[3])
    assert all(line.startswith("====== ") for line in lines)


def test_vendor_lines_of_an_illegal_read() -> None:
    c = case("memory", "rounded_up_read")
    run = compiled(c)[c.name][1](*c.values())
    lines = output.render("mssanitizer", run.findings, run.trace).splitlines()
    assert lines[0] == "====== ERROR: illegal read of size 416"
    assert lines[1].endswith(" on GM in rounded_up_read") and "aiv(0)" in lines[2]


def test_unknown_form(late: Run) -> None:
    with pytest.raises(BadInput, match="no output form"):
        output.render("xml", late.findings, late.trace)


def suppressions(tmp_path: Path, text: str) -> list[suppress.Suppression]:
    file = tmp_path / "accept.toml"
    file.write_text(text)
    return suppress.read_suppressions(file)


def test_suppression_by_text_and_unused_ones(tmp_path: Path, late: Run) -> None:
    rules = suppressions(
        tmp_path,
        '[[suppress]]\ncode = "race-unordered-pipes"\nfile = "*.cpp"\ntext = "DataCopy(gm<float>(z)"\nreason = "shown in a lesson"\n'
        '[[suppress]]\ncode = "deadlock"\nreason = "left over"\n',
    )
    kept, unused = suppress.apply(late.findings, rules)
    assert kept == [] and [s.code for s in unused] == ["deadlock"]


def test_suppression_of_another_line_does_not_fit(tmp_path: Path, late: Run) -> None:
    rules = suppressions(tmp_path, '[[suppress]]\ncode = "race-unordered-pipes"\nline = 1\nreason = "none"\n')
    kept, unused = suppress.apply(late.findings, rules)
    assert kept == late.findings and unused == rules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[suppress]]\ncode = "deadlock"\n', "has no reason"),
        ('[[suppress]]\ncode = "dead-lock"\nreason = "x"\n', "unknown code"),
        ('[[suppress]]\ncode = "deadlock"\nreason = "x"\nwhere = "y"\n', "unknown key 'where'"),
        ("[[suppress]\n", "not TOML"),
    ],
)
def test_bad_suppression_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        suppressions(tmp_path, text)


def test_findings_say_what_where_and_cure(racy: Run) -> None:
    for finding in racy.findings:
        assert isinstance(finding, Finding) and finding.message and finding.places and finding.cure


def test_an_unwritten_row_is_explained_by_the_pitch_of_the_copy() -> None:
    c = case("bug_reports", "bug_two_pitches")
    (finding,) = compiled(c)[c.name][1](*c.values()).findings
    assert finding.code == "uninitialised-read"
    assert (
        "its rows of 24 bytes are taken 32 bytes apart, because every row of a copy begins a block" in finding.message
    )
