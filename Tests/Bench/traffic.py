"""What reading costs the origin, by its own count."""

import os
import random
import sys
import time

from parts import run, sparse
from table import Row, Want

KIB, MIB = 1 << 10, 1 << 20
LENGTH = 1 << 30
FILMS = 200
TITLE = "traffic: the origin sends"
ROWS = [
    Row("beginning", "4 MiB read of 1 GiB, closed, 3 s later, MiB", 2, (Want("<=", 6),)),
    Row("pieces", "10 random pieces of 256 KiB, MiB", 2, (Want("<=", 3.5),)),
    Row("probe", "ffprobe of an mp4 of 60 MB, MiB", 2, (Want("<=", 2.5),)),
    Row("many", f"64 KiB of each of {FILMS} films, MiB", 2, (Want("<=", 60),)),
    Row("next", "the next file's first 1 MiB, after one was played through, requests", 0, (Want("<=", 0),)),
]


def film_with_index_at_end(path):
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25", "-c:v", "mpeg4", "-q:v", "1",
        "-fs", "60M", "-t", "120", path)


def read(path, offset, count):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.pread(descriptor, count, offset)
    finally:
        os.close(descriptor)


class Traffic:
    def __init__(self, bench):
        self.bench = bench
        root = bench.directory("traffic")
        for name in ["many", "queue"]:
            (root / name).mkdir()
        sparse(root / "film.mkv", LENGTH)
        for number in range(FILMS):
            sparse(root / "many" / f"{number:03}.mkv", 20 * MIB + number * 12_345)
        for name in ["a1.mkv", "a2.mkv", "a10.mkv"]:
            sparse(root / "queue" / name, 40 * MIB + 1000)
        film_with_index_at_end(root / "end.mp4")

    def sent(self, action, wait=3):
        """Requests and MiB of bodies that the origin sends for it, and within `wait` seconds after it."""
        before = self.bench.origin.sent()
        action()
        time.sleep(wait)
        after = self.bench.origin.sent()
        return after[0] - before[0], (after[1] - before[1]) / MIB

    def beginning(self, mount):
        return self.sent(lambda: run("dd", f"if={mount.file('film.mkv')}", "of=/dev/null", "bs=128k", "count=32"))[1]

    def pieces(self, mount):
        def action():
            places = random.Random(7)
            descriptor = os.open(mount.file("film.mkv"), os.O_RDONLY)
            for _ in range(10):
                os.pread(descriptor, 256 * KIB, places.randrange(LENGTH - 256 * KIB))
            os.close(descriptor)
        return self.sent(action)[1]

    def probe(self, mount):
        return self.sent(
            lambda: run("ffprobe", "-v", "error", "-show_format", "-show_streams", mount.file("end.mp4")))[1]

    def many(self, mount):
        return self.sent(
            lambda: [read(mount.file(f"many/{number:03}.mkv"), 0, 64 * KIB) for number in range(FILMS)])[1]

    def next_requests(self, mount):
        run("dd", f"if={mount.file('queue/a1.mkv')}", "of=/dev/null", "bs=1M")
        # A player takes a moment, too, from one file to the next.
        time.sleep(1)
        return self.sent(
            lambda: run("dd", f"if={mount.file('queue/a2.mkv')}", "of=/dev/null", "bs=1M", "count=1"), 0.5)[0]


def measure(bench):
    print("traffic …", file=sys.stderr)
    traffic = Traffic(bench)
    cases = {"beginning": traffic.beginning, "pieces": traffic.pieces, "probe": traffic.probe, "many": traffic.many,
             "next": traffic.next_requests}
    for row, case in cases.items():
        with bench.mount("traffic/") as mount:
            bench.figures.add(row, mount.column, case(mount))
