"""Opening, seeking and reading over a link of 40 ms, beside curl, which has a new connection each time."""

import os
import subprocess
import sys
import time

from parts import Trouble, sparse
from table import Row, Want

KIB, MIB = 1 << 10, 1 << 20
DELAY = 40
LENGTH = 1 << 30
TITLE = f"latency, over a link of {DELAY} ms"
ROWS = [
    # The link itself: round trips without anything else. Where these are missed, the others tell nothing.
    Row("link, new", "the link itself, a byte on a new connection, ms", 1, (Want("<=", 2.2 * DELAY, None, "curl"),)),
    Row("link, kept", "  on a kept one, ms", 1, (Want("<=", 1.1 * DELAY, None, "curl"),)),
    Row("first", "open and first 64 KiB, directory never listed, ms", 1, (Want("<=", 1.1, "curl"),)),
    Row("listed", "  after ls -l, ms", 1, (Want("<=", 0.6, "curl"),)),
    Row("middle", "seek to the middle, 64 KiB, ms", 1, (Want("<=", 0.6, "curl"),)),
    Row("end", "seek to the end, 64 KiB, ms", 1, (Want("<=", 0.55, "curl"),)),
    Row("other end", "  of a file whose name tells nothing, ms", 1, (Want("<=", 0.55, "curl"),)),
    Row("sequential", "64 MiB at 100 Mbit/s a connection, MB/s", 1, (Want(">=", 5, "curl"),)),
]


def curl(url, offset, count):
    """Seconds of one transfer on a connection of its own, curl's start not counted."""
    return transfers([url], offset, count)[0]


def transfers(urls, offset, count):
    words = [word for url in urls for word in ("-o", "/dev/null", url)]
    done = subprocess.run(["curl", "-sf", "-r", f"{offset}-{offset + count - 1}", "-w", "%{time_total}\n", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Trouble(f"curl ended with {done.returncode}")
    return [float(line) for line in done.stdout.split()]


def timed(action, *arguments):
    start = time.monotonic()
    action(*arguments)
    return time.monotonic() - start


def read(path, offset, count):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        got = 0
        while got < count:
            part = len(os.pread(descriptor, min(count - got, MIB), offset + got))
            if part == 0:
                raise Trouble(f"{path} ends early")
            got += part
    finally:
        os.close(descriptor)


def first(film):
    return timed(read, film, 0, 64 * KIB)


def listed(film):
    subprocess.run(["ls", "-l", film.parent], stdout=subprocess.DEVNULL, check=True)
    return timed(read, film, 0, 64 * KIB)


def seek(film, offset):
    """Of a film whose beginning was read, a moment later."""
    descriptor = os.open(film, os.O_RDONLY)
    try:
        os.pread(descriptor, 64 * KIB, 0)
        time.sleep(0.3)
        return timed(os.pread, descriptor, 64 * KIB, offset)
    finally:
        os.close(descriptor)


def compare(bench, link, row, ours, offset=0, count=64 * KIB, film="films/film.mkv"):
    """Milliseconds; a mount without anything cached each time, and curl of the same bytes before it."""
    for _ in range(bench.many_rounds):
        bench.figures.add(row, "curl", 1000 * curl(link.url + "latency/" + film, offset, count))
        with bench.mount("latency/", link) as mount:
            bench.figures.add(row, mount.column, 1000 * ours(mount.file(film)))


def measure(bench):
    print("latency …", file=sys.stderr)
    films = bench.directory("latency") / "films"
    films.mkdir()
    sparse(films / "film.mkv", LENGTH)
    os.link(films / "film.mkv", films / "data")
    with bench.link(DELAY) as link:
        for _ in range(bench.many_rounds):
            new, kept = transfers([link.url + "latency/films/film.mkv"] * 2, 0, 1)
            bench.figures.add("link, new", "curl", 1000 * new)
            bench.figures.add("link, kept", "curl", 1000 * kept)
        compare(bench, link, "first", first)
        compare(bench, link, "listed", listed)
        compare(bench, link, "middle", lambda film: seek(film, LENGTH // 2), LENGTH // 2)
        last = LENGTH - 64 * KIB
        for row, film in [("end", "films/film.mkv"), ("other end", "films/data")]:
            compare(bench, link, row, lambda place: seek(place, last), last, film=film)
    with bench.link(DELAY, 100) as link:
        for _ in range(bench.rounds):
            bench.figures.add("sequential", "curl", 64 * MIB / 1e6 / curl(link.url + "latency/films/film.mkv", 0, 64 * MIB))
            with bench.mount("latency/", link) as mount:
                elapsed = timed(read, mount.file("films/film.mkv"), 0, 64 * MIB)
            bench.figures.add("sequential", mount.column, 64 * MIB / 1e6 / elapsed)
