"""A tree that a program walks through: one folder after the other, over the link."""

import shutil
import subprocess
import sys
import time

from parts import Trouble
from table import Row, Want

FOLDERS, FILES = 1000, 20
DELAY = 40
TITLE = f"walk through {FOLDERS:,} folders of {FILES} files over a link of {DELAY} ms"
ROWS = [
    Row("find", "find, one walker, s", 1, (Want("<=", 6),)),
    Row("requests", "  requests for a folder", 2, (Want("<=", 1.02),)),
    Row("again", "  find once more, s", 1, (Want("<=", 1),)),
]


def find(mount):
    """The seconds of `find`, which must find every file."""
    start = time.monotonic()
    done = subprocess.run(["find", mount.directory, "-type", "f"], capture_output=True, timeout=600, check=True)
    elapsed = time.monotonic() - start
    found = done.stdout.count(b"\n")
    if found != FOLDERS * FILES:
        raise Trouble(f"find found {found} files")
    return elapsed


def measure(bench):
    print("walk …", file=sys.stderr)
    root = bench.directory("walk")
    for folder in range(FOLDERS):
        place = root / f"Artist {folder:04}"
        place.mkdir()
        for file in range(FILES):
            (place / f"{file:02} Song.flac").write_text("x")
    # rclone takes minutes.
    for who, rounds in [("reelfs", bench.rounds), ("rclone", 1)]:
        for _ in range(rounds):
            with bench.link(DELAY) as link, bench.mount("walk/", link, who) as mount:
                before = bench.origin.sent()[0]
                bench.figures.add("find", who, find(mount))
                bench.figures.add("requests", who, (bench.origin.sent()[0] - before) / FOLDERS)
                bench.figures.add("again", who, find(mount))
    shutil.rmtree(root)
