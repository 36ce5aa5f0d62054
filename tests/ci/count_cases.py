"""Counts the cases that `bazel test` ran, and says why others were skipped: the end of .ci/run.

    python3 tests/ci/count_cases.py LOG TESTLOGS STATUS

LOG has what Bazel printed, TESTLOGS is its folder of reports (`bazel info bazel-testlogs`), STATUS
its exit status. A target without a report of its own is one case. A target that Bazel calls passed
though all its cases were skipped is named: none of its cases counts as passed.
"""

import collections
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

# A target's label and status: `//a/b:test_c    (cached) PASSED in 0.1s`.
_TARGET = re.compile(
    r"^//([^\s:]+):(\S+)\s+(?:\(cached\) )?([A-Z]{2,}(?: [A-Z]{2,})*)", re.MULTILINE
)
_PLACE = re.compile(r"\S+:\d+\n")  # googletest says where a case was skipped before it says why


def outcomes(package: str, name: str, status: str, testlogs: Path) -> Iterator[tuple[str, str]]:
    """`passed`, `failed` or `skipped` of each case of a target, and why."""
    if status == "SKIPPED":
        yield "skipped", "target not compatible with this machine or its flags"
        return
    found = []
    reports = sorted((testlogs / package / name).glob("**/test.xml"))
    try:
        for report in reports:
            found += [_outcome(case) for case in ElementTree.parse(report).iter("testcase")]
    except ElementTree.ParseError:  # the test was killed as it wrote
        found = []
    passed = status in ("PASSED", "FLAKY")
    if passed and reports and not found:
        yield "skipped", "no case at all"
        return
    if not found or not passed and not any(outcome == "failed" for outcome, _ in found):
        found.append(("passed" if passed else "failed", ""))
    yield from found


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed", ""
    skipped = case.find("skipped")
    if skipped is not None:
        why = _PLACE.sub("", skipped.get("message", ""), count=1)
        return "skipped", " ".join(why.split()) or "no reason given"
    return ("skipped", "disabled") if case.get("status") == "notrun" else ("passed", "")


def main(log: str, testlogs: str, status: str) -> None:
    """Prints the table and the line."""
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    targets = [
        (f"//{package}:{name}", shown, list(outcomes(package, name, shown, Path(testlogs))))
        for package, name, shown in _TARGET.findall(text)
    ]
    found = [case for _, _, cases in targets for case in cases]
    idle = [
        label
        for label, shown, cases in targets
        if shown != "SKIPPED" and all(outcome == "skipped" for outcome, _ in cases)
    ]
    total = collections.Counter(outcome for outcome, _ in found)
    why = collections.Counter(reason for outcome, reason in found if outcome == "skipped")
    if why:
        print("\nskipped  why")
    for reason, count in why.most_common():
        print(f"{count:7}  {reason}")
    if idle:
        print(f"\n{len(idle)} of {len(targets)} test targets skipped all their cases:")
        print(*(f"  {label}" for label in idle), sep="\n")
    line = f"{total['passed']} passed, {total['failed']} failed"
    if total["skipped"]:
        line += f", {total['skipped']} skipped"
    if status != "0" and not total["failed"]:
        line += ", and the build failed: see the errors above"
    print(f"\n{line}")


if __name__ == "__main__":
    main(*sys.argv[1:])
