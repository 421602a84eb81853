"""The bench's one table: a row a question, a column a program, and whether it is what is wanted."""

# Row, its text, digits behind the point, columns, what is wanted of (reelfs against a column, or a bound).
ROWS = [
    ("cold", "first read, MB/s", 0, [(">=", 0.5, "curl"), (">", 1.0, "rclone")]),
    ("warm", "from the cache's disk, MB/s", 0, [(">=", 2.0, "rclone")]),
    ("hot", "once more, MB/s", 0, [(">=", 5.0, "rclone")]),
    ("random 4 KiB", "random 4 KiB, 1000 reads/s", 1, []),
    ("random 128 KiB", "random 128 KiB, 1000 reads/s", 1, []),
    ("memory", "daemon's peak memory, MiB", 1, [("<", 64.0, None)]),
    ("CPU, cold", "first read, CPU s/GiB", 2, []),
    ("CPU, warm", "from the cache's disk, CPU s/GiB", 2, []),
    ("sent, cold", "origin sent, × length: first read", 3, [("<=", 1.01, None)]),
    ("sent, again", "  read again", 3, [("<=", 0.0, None)]),
    ("sent, 8 readers", "  8 readers at once", 3, [("<=", 1.01, None)]),
    ("sent, remounted", "  after a remount", 3, [("<=", 0.0001, None)]),
    ("listing", "ls -l of 10,000 entries, ms", 0, []),
    ("listing, memory", "  memory for it, MiB", 1, [("<", 16.0, None)]),
    ("listing, requests", "  requests for it", 0, [("<=", 3.0, None)]),
]
COLUMNS = ["reelfs", "curl", "local", "rclone"]


def meets(sign, value, bound):
    return {">=": value >= bound, ">": value > bound, "<=": value <= bound, "<": value < bound}[sign]


def print_table(medians, size, rounds):
    """`medians`: (row, column) → figure. A missing one is a dash, and nothing is wanted of it."""
    lines = [["", *COLUMNS, "reelfs is", "wanted"]]
    for row, text, digits, wants in ROWS:
        own = medians.get((row, "reelfs"))
        cells = [f"{medians[row, column]:.{digits}f}" if (row, column) in medians else "-" for column in COLUMNS]
        ratios, verdicts = [], []
        others = [column for column in COLUMNS[1:] if medians.get((row, column))] if own is not None else []
        for column in others:
            ratios.append(f"{own / medians[row, column]:.2f} × {column}")
        for sign, bound, column in wants:
            value = own if column is None else (own / medians[row, column] if column in others else None)
            if value is not None:
                name = f"{bound:g} × {column}" if column else f"{bound:g}"
                verdicts.append(f"{sign} {name}: {'yes' if meets(sign, value, bound) else 'NO'}")
        lines.append([text, *cells, ", ".join(ratios), ", ".join(verdicts)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    print(f"\n{size / (1 << 20):.0f} MiB, medians of {rounds} rounds\n")
    for line in lines:
        cells = [cell.rjust(width) if 0 < column < 5 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
