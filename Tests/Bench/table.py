"""Rows of figures: a table a group, whether each is what is wanted, and how it stands beside the committed reference."""

import json
import pathlib
import statistics
from typing import NamedTuple

REFERENCE = pathlib.Path(__file__).with_name("reference.json")
# A figure worse than its reference by more than this part of it is pointed out.
TOLERANCE = 1 / 3
COLUMNS = ["reelfs", "as user", "encrypted", "curl", "local", "rclone", "mpv", "URL", "relay", "store", "room"]
OWN = ["reelfs", "as user", "encrypted"]


class Want(NamedTuple):
    """That a figure of ours is at least (or at most) `bound`, or `bound` times the one in column `other`."""

    sign: str
    bound: float
    other: str | None = None
    column: str = "reelfs"


class Row(NamedTuple):
    key: str
    text: str
    digits: int
    wants: tuple = ()
    # Seconds of which no ratio is wanted: the reference keeps the one to this column, never the seconds.
    beside: str | None = None


class Finding(NamedTuple):
    """What came of one want."""

    name: str
    value: float
    want: Want
    is_met: bool

    def text(self):
        owner = "" if self.want.column == "reelfs" else f"{self.want.column} "
        other = f" × {self.want.other}" if self.want.other else ""
        sign = {">=": "≥", "<=": "≤", "<": "<"}[self.want.sign]
        return f"{owner}{self.value:.3g}{other}, wanted {sign} {self.want.bound:g}: {'yes' if self.is_met else 'NO'}"


def meets(sign, value, bound):
    return {">=": value >= bound, "<=": value <= bound, "<": value < bound}[sign]


class Figures:
    """What was measured: a list for each row and column, round by round."""

    def __init__(self):
        self.values = {}

    def add(self, row, column, value):
        self.values.setdefault((row, column), []).append(value)

    def median(self, row, column):
        values = self.values.get((row, column))
        return statistics.median(values) if values else None

    def ratio(self, row, column, other):
        """The median of the rounds' ratios: what disturbs a round disturbs both of its figures."""
        ours, theirs = self.values.get((row, column)), self.values.get((row, other))
        if not ours or not theirs or not all(theirs):
            return None
        if len(ours) != len(theirs):
            return statistics.median(ours) / statistics.median(theirs)
        return statistics.median(mine / other for mine, other in zip(ours, theirs))

    def findings(self, group, row):
        for want in row.wants:
            value = (self.ratio(row.key, want.column, want.other) if want.other
                     else self.median(row.key, want.column))
            if value is not None:
                yield Finding(f"{group}: {row.key}", value, want, meets(want.sign, value, want.bound))

    def references(self, group, row):
        """Names, figures, and whether more is better: ratios, or where none is wanted the figure."""
        pairs = [(want.column, want.other, want.sign) for want in row.wants if want.other]
        if row.beside:
            pairs += [(column, row.beside, "<=") for column in OWN]
        for column, other, sign in pairs:
            value = self.ratio(row.key, column, other)
            if value is not None:
                yield f"{group}: {row.key}, {column} × {other}", value, sign == ">="
        for want in row.wants:
            value = self.median(row.key, want.column)
            if not want.other and not row.beside and value is not None:
                yield f"{group}: {row.key}, {want.column}", value, want.sign == ">="


def print_group(group, title, rows, figures):
    """The group's table; returns the findings."""
    columns = [column for column in COLUMNS if any(figures.median(row.key, column) is not None for row in rows)]
    lines, findings = [[title, *columns, ""]], []
    for row in rows:
        medians = [figures.median(row.key, column) for column in columns]
        if all(value is None for value in medians):
            continue
        found = list(figures.findings(group, row))
        findings += found
        cells = ["-" if value is None else f"{value:.{row.digits}f}" for value in medians]
        texts = [finding.text() for finding in found]
        lines.append([row.text, *cells, texts[0] if texts else ""])
        lines += [["", *[""] * len(columns), text] for text in texts[1:]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    print()
    for line in lines:
        cells = [cell.rjust(width) if 0 < column <= len(columns) else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip(), flush=True)
    return findings


def print_misses(findings):
    misses = [finding for finding in findings if not finding.is_met]
    print(f"\n{len(findings) - len(misses)} of {len(findings)} are what is wanted.")
    for finding in misses:
        print(f"  missed: {finding.name}: {finding.text()}")


def print_against_reference(figures_of_groups):
    known = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    for name, value, is_more_better in figures_of_groups:
        if name not in known:
            continue
        # Of what is almost nothing, twice as much is nothing, too.
        slack = 0.01
        is_worse = (value < known[name] * (1 - TOLERANCE) - slack if is_more_better
                    else value > known[name] * (1 + TOLERANCE) + slack)
        if is_worse:
            print(f"  more than a third worse than the reference: {name}: {value:.3g}, reference {known[name]:.3g}")


def write_reference(figures_of_groups):
    known = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    known.update({name: float(f"{value:.3g}") for name, value, _ in figures_of_groups})
    REFERENCE.write_text(json.dumps(dict(sorted(known.items())), indent=2, ensure_ascii=False) + "\n")
