"""A file that a command fetches: beside curl on loopback and over a link, and beside a player on one line."""

import os
import subprocess
import sys
import time

from library import DELAY, LINE, MBIT, RATE, SECONDS, Player
from parts import run, sparse
from reads import write_random_file
from table import Row, Want

# What each connection of the link brings, as elsewhere.
CONNECTION = 100
OVER_LINK = 256 << 20
TITLE = "prefetch"
ROWS = [
    Row("loopback", "prefetch on loopback, MB/s", 0, (Want(">=", 0.95, "curl"),)),
    Row("link", f"  over {DELAY} ms, {CONNECTION} Mbit/s a connection, MB/s", 1, (Want(">=", 0.95, "curl"),)),
    Row("sent", "  origin sent, × length", 3, (Want("<=", 1.01),)),
    Row("player", f"a film of 20 Mbit/s beside it, on a line of {LINE} Mbit/s, of real time", 2, (Want(">=", 0.98),)),
    Row("stalls", "  its stalls", 0, (Want("<=", 0),)),
    Row("beside", "  prefetch meanwhile, of what the film leaves", 2, (Want(">=", 0.5),)),
]


def fetch(url, path):
    """- Returns: seconds."""
    seconds = run("curl", "-sf", "-o", path, url + "prefetch/film.bin")
    path.unlink()
    return seconds


def prefetch(bench, mount):
    """- Returns: seconds."""
    start = time.monotonic()
    mount.run(bench.program, "prefetch", mount.file("film.bin"))
    return time.monotonic() - start


def measure(bench):
    print("prefetch …", file=sys.stderr)
    root = bench.directory("prefetch")
    who = "reelfs" if os.geteuid() == 0 else "as user"
    film, local = root / "film.bin", bench.work / "curl.bin"
    write_random_file(film, bench.size)
    for _ in range(bench.rounds):
        run("dd", f"if={film}", "of=/dev/null", "bs=1M", "status=none")
        bench.figures.add("loopback", "curl", bench.size / fetch(bench.origin.url, local) / 1e6)
        before = bench.origin.sent()[1]
        with bench.mount("prefetch/") as mount:
            bench.figures.add("loopback", who, bench.size / prefetch(bench, mount) / 1e6)
            mount.run("cmp", mount.file("film.bin"), film)
        bench.figures.add("sent", who, (bench.origin.sent()[1] - before) / bench.size)
    with open(film, "r+b") as file:
        file.truncate(min(OVER_LINK, bench.size))
    size = film.stat().st_size
    with bench.link(DELAY, CONNECTION) as link:
        bench.figures.add("link", "curl", size / fetch(link.url, local) / 1e6)
    with bench.link(DELAY, CONNECTION) as link, bench.mount("prefetch/", link) as mount:
        bench.figures.add("link", who, size / prefetch(bench, mount) / 1e6)
    sparse(root / "played.mkv", RATE * SECONDS)
    with bench.link(DELAY, 0, LINE) as link, bench.mount("prefetch/", link) as mount:
        player = Player(mount.file("played.mkv"))
        beside = subprocess.Popen([*mount.words, bench.program, "prefetch", mount.file("film.bin")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            player.thread.start()
            player.thread.join()
            cached = int(os.getxattr(mount.file("film.bin"), "user.reelfs.cached")) * size // 100
        finally:
            beside.kill()
            beside.wait()
        bench.figures.add("player", who, player.of_real_time)
        bench.figures.add("stalls", who, player.stalls)
        left = (LINE * MBIT - RATE) * SECONDS
        bench.figures.add("beside", who, min(size, cached) / min(size, left))
