"""reading.py PROGRAM [WORD…]  what reading costs the origin, and how soon bytes come over a slow link.

Words choose cases by name; without any, all run. Bytes are counted by the origin (nginx on loopback). Times are medians
over ROUNDS (3) beside curl, which has a new connection each time. BENCH_DIR (/var/tmp) takes the files.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from parts import Origin, ReelMount, Trouble, run

KIB, MIB = 1 << 10, 1 << 20
FILMS = 200


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def film_with_index_at_end(path):
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25", "-c:v", "mpeg4", "-q:v", "1", "-fs", "60M",
        "-t", "120", path)


def read(path, offset, count):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return len(os.pread(descriptor, count, offset))
    finally:
        os.close(descriptor)


def seconds(action, *arguments):
    start = time.monotonic()
    action(*arguments)
    return time.monotonic() - start


def curl(url, first, last):
    done = subprocess.run(["curl", "-s", "-f", "-o", "/dev/null", "-r", f"{first}-{last}", "-w", "%{time_total}", url],
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


class Link:
    """A link.py of our own."""

    def __init__(self, origin_url, delay, rate):
        port = origin_url.rstrip("/").rpartition(":")[2]
        self.process = subprocess.Popen(
            [sys.executable, "-B", pathlib.Path(__file__).with_name("link.py"), port, str(delay), str(rate)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/"

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Reading:
    def __init__(self, program, work, stack):
        self.program, self.work, self.stack = program, work, stack
        self.rounds = int(os.environ.get("ROUNDS", "3"))
        self.number = 0
        root = work / "root"
        root.mkdir()
        for name in ["many", "queue"]:
            (root / name).mkdir()
        sparse(root / "film.mkv", 1 << 30)
        for number in range(FILMS):
            sparse(root / "many" / f"{number:03}.mkv", 20 * MIB + number * 12_345)
        for name in ["a1.mkv", "a2.mkv", "a10.mkv"]:
            sparse(root / "queue" / name, 40 * MIB + 1000)
        film_with_index_at_end(root / "end.mp4")
        self.origin = Origin(root, work)
        stack.callback(self.origin.close)

    @contextlib.contextmanager
    def mount(self, url=None):
        self.number += 1
        mount = ReelMount(self.program, url or self.origin.url, self.work / "mnt", self.work / f"cache-{self.number}")
        try:
            yield mount
        finally:
            mount.forget()

    def sent(self, action):
        """Requests and MiB of bodies that the origin sends for it."""
        before = self.origin.sent()
        action()
        after = self.origin.sent()
        return after[0] - before[0], (after[1] - before[1]) / MIB

    def report(self, name, figure, unit, want):
        print(f"{name:58} {figure:9.2f} {unit:9} want {want}", flush=True)

    # Bytes

    def bytes_of_a_beginning(self):
        def action():
            run("dd", f"if={mount.file('film.mkv')}", "of=/dev/null", "bs=128k", "count=32")
            time.sleep(3)
        with self.mount() as mount:
            self.report("origin sends: 4 MiB of 1 GiB, closed, 3 s later", self.sent(action)[1], "MiB", "≤ 8")

    def bytes_of_pieces(self):
        def action():
            chosen = random.Random(7)
            descriptor = os.open(mount.file("film.mkv"), os.O_RDONLY)
            for _ in range(10):
                os.pread(descriptor, 256 * KIB, chosen.randrange((1 << 30) - 256 * KIB))
            os.close(descriptor)
            time.sleep(3)
        with self.mount() as mount:
            self.report("origin sends: 10 random pieces of 256 KiB", self.sent(action)[1], "MiB", "≤ 5")

    def bytes_of_a_probe(self):
        def action():
            run("ffprobe", "-v", "error", "-show_format", "-show_streams", mount.file("end.mp4"))
            time.sleep(3)
        with self.mount() as mount:
            self.report("origin sends: ffprobe of a 60 MB mp4", self.sent(action)[1], "MiB", "≤ 2.5")

    def bytes_of_many(self):
        def action():
            for number in range(FILMS):
                read(mount.file(f"many/{number:03}.mkv"), 0, 64 * KIB)
            time.sleep(3)
        with self.mount() as mount:
            requests, sent = self.sent(action)
            self.report(f"origin sends: 64 KiB of {FILMS} films ({requests} requests)", sent, "MiB", "≤ 60")

    def requests_of_the_next(self):
        def action():
            run("dd", f"if={mount.file('queue/a2.mkv')}", "of=/dev/null", "bs=1M", "count=1")
            time.sleep(0.5)
        with self.mount() as mount:
            run("ls", mount.file("queue"))
            run("dd", f"if={mount.file('queue/a1.mkv')}", "of=/dev/null", "bs=1M")
            time.sleep(1)
            self.report("requests for the next file's first 1 MiB", self.sent(action)[0], "requests", "0")

    # A link of 40 ms

    def ratios(self, name, delay, rate, ours, of_curl, want):
        """Medians of seconds: `ours` gets a fresh mount's film each round."""
        link = Link(self.origin.url, delay, rate)
        self.stack.callback(link.close)
        times, others = [], []
        for _ in range(self.rounds):
            others.append(of_curl(link.url + "film.mkv"))
            with self.mount(link.url) as mount:
                times.append(ours(mount.file("film.mkv")))
        mine, other = statistics.median(times), statistics.median(others)
        self.report(f"{name} ({1000 * mine:.0f} ms, curl {1000 * other:.0f})", mine / other, "× curl", want)

    def link_first(self):
        self.ratios("40 ms: open + 64 KiB", 40, 0, lambda film: seconds(read, film, 0, 64 * KIB),
                    lambda url: curl(url, 0, 64 * KIB - 1), "≤ 1.1")

    def link_listed(self):
        def ours(film):
            run("ls", "-l", film.parent)
            return seconds(read, film, 0, 64 * KIB)
        self.ratios("40 ms: open + 64 KiB, after ls", 40, 0, ours, lambda url: curl(url, 0, 64 * KIB - 1), "≤ 0.6")

    def link_seek(self):
        for name, offset in [("middle", 512 * MIB), ("end", (1 << 30) - 64 * KIB)]:
            def ours(film):
                descriptor = os.open(film, os.O_RDONLY)
                os.pread(descriptor, 64 * KIB, 0)
                time.sleep(0.3)
                elapsed = seconds(os.pread, descriptor, 64 * KIB, offset)
                os.close(descriptor)
                return elapsed
            self.ratios(f"40 ms: seek to the {name}", 40, 0, ours,
                        lambda url: curl(url, offset, offset + 64 * KIB - 1), "≤ 0.6")

    def link_sequential(self):
        def ours(film):
            return seconds(run, "dd", f"if={film}", "of=/dev/null", "bs=1M", "count=64")
        self.ratios("40 ms, 100 Mbit/s a connection: 64 MiB", 40, 100, ours, lambda url: curl(url, 0, 64 * MIB - 1), "≤ 0.25")


def main(program, words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = pathlib.Path(tempfile.mkdtemp(prefix="reelfs-reading-", dir=os.environ.get("BENCH_DIR", "/var/tmp")))
    cases = ["bytes_of_a_beginning", "bytes_of_pieces", "bytes_of_a_probe", "bytes_of_many", "requests_of_the_next",
             "link_first", "link_listed", "link_seek", "link_sequential"]
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, work, ignore_errors=True)
            reading = Reading(program, work, stack)
            for case in cases:
                if not words or any(word in case for word in words):
                    getattr(reading, case)()
    except Trouble as trouble:
        sys.exit(f"reading: {trouble}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
