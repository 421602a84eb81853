"""Many players at once: on a line that just carries them, and of what is on the disk."""

import shutil
import sys
import time

from library import DELAY, MBIT, Player, play
from parts import drop_page_cache, run, sparse
from table import Row, Want

LINE = 100
SECONDS = 30
RATE = 8 * MBIT
ONLINE, CACHED = 10, 64
TITLE = "crowd: films of 8 Mbit/s"
ROWS = [
    Row("line", f"{ONLINE} over {DELAY} ms and a line of {LINE} Mbit/s, the slowest one, of real time", 3,
        (Want(">=", 0.98),)),
    Row("line, stalls", "  stalls of all, their starts included", 0),
    Row("line, CPU", "  CPU of the daemon, of one processor", 3),
    Row("line, memory", "  its peak memory, MiB", 0),
    Row("cache", f"{CACHED} from the disk, the slowest one, of real time", 3, (Want(">=", 0.98),)),
    Row("cache, stalls", "  stalls of all, their starts included", 0),
    Row("cache, CPU", "  CPU of the daemon, of one processor", 3),
    Row("cache, memory", "  its peak memory, MiB", 0),
]


def watch(bench, row, who, films, mount=None):
    players = [Player(film, RATE, SECONDS) for film in films]
    start, cpu = time.monotonic(), mount.cpu_seconds() if mount else 0
    play(players)
    if mount:
        bench.figures.add(f"{row}, CPU", who, (mount.cpu_seconds() - cpu) / (time.monotonic() - start))
        bench.figures.add(f"{row}, memory", who, mount.peak_memory())
    bench.figures.add(row, who, min(player.of_real_time for player in players))
    bench.figures.add(f"{row}, stalls", who, sum(player.stalls for player in players))


def measure(bench):
    root = bench.directory("crowd")
    names = [f"{number:02}.mkv" for number in range(CACHED)]
    for name in names:
        sparse(root / name, RATE * SECONDS)
    for number in range(bench.rounds):
        print(f"crowd, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        with bench.link(DELAY, 0, LINE) as link:
            watch(bench, "line", "URL", [f"{link.url}crowd/{name}" for name in names[:ONLINE]])
        for who in ["reelfs", "rclone"] if shutil.which("rclone") else ["reelfs"]:
            with bench.link(DELAY, 0, LINE) as link, bench.mount("crowd/", link, who) as mount:
                watch(bench, "line", who, [mount.file(name) for name in names[:ONLINE]], mount)
            with bench.mount("crowd/", who=who) as mount:
                run("cat", *[mount.file(name) for name in names])
                drop_page_cache(mount.cache)
                watch(bench, "cache", who, [mount.file(name) for name in names], mount)
    shutil.rmtree(root)
