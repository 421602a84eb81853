"""A film that does not fit into what the cache may hold: what making room costs its reader, and others."""

import os
import pathlib
import random
import shutil
import sys
import threading
import time

from parts import run, sparse
from reads import write_random_file
from table import Row, Want

# What each read of the other films brings; they read here and there.
PIECE = 512 << 10
TITLE = "full: a film of 1.5 × SIZE through a cache"
ROWS = [
    Row("read", "of half of SIZE, first read, MB/s (beside: a cache with room)", 0, (Want(">=", 0.95, "room"),)),
    Row("slow", "  the same where a sync takes 20 ms more, MB/s", 0, (Want(">=", 0.95, "room"),)),
    Row("other", "  the longest read meanwhile of another film, here and there, ms", 1, (Want("<=", 50),)),
    Row("cached", "  the longest read of one that is cached, ms", 1, (Want("<=", 50),)),
]


class Reader:
    """Reads pieces of a film, at places that nobody has read before, twenty times a second until it is told to end;
    `longest` is a read's, in seconds."""

    def __init__(self, path):
        self.path, self.longest, self.is_over = path, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self):
        descriptor = os.open(self.path, os.O_RDONLY)
        # No place is near another one, so that nothing is fetched ahead.
        places = list(range(0, os.fstat(descriptor).st_size - PIECE, 3 * PIECE))
        random.Random(7).shuffle(places)
        for place in places:
            start = time.monotonic()
            os.pread(descriptor, 4096, place)
            self.longest = max(self.longest, time.monotonic() - start)
            if self.is_over.wait(0.05):
                break
        os.close(descriptor)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def mount(bench, who, slow=()):
    size = f"{bench.size // 2}" if who == "reelfs" else f"{4 * bench.size}"
    return bench.mount("full/", who="reelfs", options=["--cache-size", size], environment=slow)


def first_read(bench, mounted):
    return bench.size * 1.5 / run("dd", f"if={mounted.file('film.bin')}", "of=/dev/null", "bs=1M") / 1e6


def measure(bench):
    if os.geteuid():
        print("full: left out, as only root's mounts are beside a disk's speed", file=sys.stderr)
        return
    root = bench.directory("full")
    write_random_file(root / "film.bin", bench.size * 3 // 2)
    # The second fits into the cache beside the film.
    for name, size in [("other.mkv", bench.size), ("cached.mkv", 200 << 20)]:
        sparse(root / name, size)
    library = bench.work / "slow_sync.so"
    compiler = shutil.which("cc") or shutil.which("clang")
    run(compiler, "-O2", "-shared", "-fPIC", "-o", library, pathlib.Path(__file__).with_name("slow_sync.c"), "-ldl")
    for number in range(2 * bench.rounds):
        print(f"full, round {number + 1} of {2 * bench.rounds} …", file=sys.stderr)
        order = ["reelfs", "room"] if number % 2 else ["room", "reelfs"]
        for who in order:
            # The origin's disk is not what is measured.
            run("dd", f"if={root / 'film.bin'}", "of=/dev/null", "bs=1M")
            os.sync()
            with mount(bench, who) as mounted:
                bench.figures.add("read", who, first_read(bench, mounted))
        for who in order:
            os.sync()
            with mount(bench, who, [f"LD_PRELOAD={library}"]) as mounted:
                run("cat", mounted.file("cached.mkv"))
                with Reader(mounted.file("other.mkv")) as other, Reader(mounted.file("cached.mkv")) as cached:
                    bench.figures.add("slow", who, first_read(bench, mounted))
            bench.figures.add("other", who, 1000 * other.longest)
            bench.figures.add("cached", who, 1000 * cached.longest)
    shutil.rmtree(root)
