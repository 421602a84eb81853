"""`ls -l` of a large directory: over the link with the mount before it, once more, what it asks for and what it keeps."""

import shutil
import sys
import time

from parts import run
from table import Row, Want

ENTRIES = 10_000
DELAY = 40
TITLE = f"listing, {ENTRIES:,} files over a link of {DELAY} ms"
ROWS = [
    Row("cold", "mount and ls -l, ms", 0, (Want("<=", 1000),)),
    # As the local one, and what a machine's noise makes of so little time.
    Row("again", "ls -l once more, ms", 0, (Want("<=", 1.25, "local"),)),
    Row("requests", "requests for it", 0, (Want("<=", 3),)),
    Row("memory", "memory for it, MiB", 1, (Want("<=", 16),)),
]


def measure(bench):
    print("listing …", file=sys.stderr)
    many = bench.directory("listing") / "many"
    many.mkdir()
    for number in range(ENTRIES):
        (many / f"{number:05}.txt").write_text("x")
    figures = bench.figures
    with bench.link(DELAY) as link:
        for _ in range(bench.rounds):
            before = bench.origin.sent()[0]
            start = time.monotonic()
            with bench.mount("listing/", link) as mount:
                memory = mount.peak_memory()
                run("ls", "-l", mount.file("many"))
                figures.add("cold", mount.column, 1000 * (time.monotonic() - start))
                for _ in range(bench.many_rounds):
                    figures.add("again", "local", 1000 * run("ls", "-l", many))
                    figures.add("again", mount.column, 1000 * run("ls", "-l", mount.file("many")))
                figures.add("memory", mount.column, mount.peak_memory() - memory)
                figures.add("requests", mount.column, bench.origin.sent()[0] - before)
    shutil.rmtree(bench.root / "listing")
