"""Players on a line that others use too: a media server's probes and a copy, all through one mount."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading

from library import DELAY, LINE, MBIT, PROBE, SCANNERS, Player, make_films, name, play
from parts import run, sparse, wait_until
from table import Row, Want

SECONDS = 40
# More than eight probes look at meanwhile.
FILMS = 2000
TITLE = f"second, over {DELAY} ms and a line of {LINE} Mbit/s in all, {SCANNERS} ffprobes and a cp beside"
ROWS = [
    Row("one", "a film of 20 Mbit/s, of real time", 2, (Want(">=", 0.98),)),
    Row("one, stop", "  its longest stop, ms", 0, (Want("<=", 100),)),
    Row("two", "two of 15 Mbit/s, the slower one", 2, (Want(">=", 0.97),)),
    Row("two, stop", "  its longest stop, ms", 0),
]


class Crowd:
    """Probes and a copy that go on until it ends; `place` gives what a name is to them."""

    def __init__(self, place):
        self.place, self.is_over, self.running = place, threading.Event(), set()
        self.lock, self.names = threading.Lock(), iter(range(FILMS))
        self.threads = [threading.Thread(target=self.probe) for _ in range(SCANNERS)]
        self.threads.append(threading.Thread(target=self.copy))

    def run(self, *words):
        with self.lock:
            if self.is_over.is_set():
                return
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.running.add(process)
        process.wait()
        with self.lock:
            self.running.discard(process)

    def probe(self):
        while not self.is_over.is_set():
            with self.lock:
                number = next(self.names)
            self.run(*PROBE, self.place(name(number)))

    def copy(self):
        copied = self.place("copied.bin")
        self.run(*(["curl", "-sf", "-o", "/dev/null"] if isinstance(copied, str) else ["cat"]), copied)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        # From here on each has begun.
        wait_until(lambda: len(self.running) == len(self.threads), 20, "the probes do not start")
        return self

    def __exit__(self, *_):
        with self.lock:
            self.is_over.set()
            for process in self.running:
                process.kill()
        for thread in self.threads:
            thread.join()


def make_film(path, rate):
    """A film of `rate` Mbit/s, and a second longer than it is played: pictures of one size, 25 a second."""
    width, height = 320, rate * MBIT // 25 * 2 // 3 // 320 // 2 * 2
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={width}x{height}:r=25", "-t", str(SECONDS + 1),
        "-pix_fmt", "yuv420p", "-c:v", "rawvideo", path)


def make_tree(root):
    make_films(root, FILMS)
    for rate in (20, 15):
        make_film(root / f"first{rate}.mkv", rate)
    os.link(root / "first15.mkv", root / "second15.mkv")
    sparse(root / "copied.bin", 400_000_001)


@contextlib.contextmanager
def places(bench, who):
    """What a name is to `who`, over a line of its own."""
    with bench.link(DELAY, 0, LINE) as link:
        if who == "URL":
            yield lambda name: f"{link.url}second/{name}"
            return
        with bench.mount("second/", link, who) as mount:
            # A media server has listed the folder before.
            os.listdir(mount.file("scan"))
            yield mount.file


def measure(bench):
    root = bench.directory("second")
    make_tree(root)
    for number in range(bench.rounds):
        print(f"second, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        for who in ["reelfs", "URL", "rclone"] if shutil.which("rclone") else ["reelfs", "URL"]:
            # They are slow, and are here for comparison.
            if who != "reelfs" and number:
                continue
            for row, films, rate in [("one", ["first"], 20), ("two", ["first", "second"], 15)]:
                with places(bench, who) as place, Crowd(place):
                    players = [Player(place(f"{film}{rate}.mkv"), rate * MBIT, SECONDS) for film in films]
                    play(players)
                slowest = min(players, key=lambda player: player.of_real_time)
                bench.figures.add(row, who, slowest.of_real_time)
                bench.figures.add(f"{row}, stop", who, 1000 * max(player.longest for player in players))
    shutil.rmtree(root)
