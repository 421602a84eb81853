"""bench.py PROGRAM  reelfs beside curl, the local file and rclone: medians and ratios in one table.

Variables: SIZE (1G) of the file, ROUNDS (3), BENCH_DIR (/var/tmp): a disk with five times SIZE free.
Whole processes are timed (dd, curl), interleaved in a changing order. Exit status 1 when something fails, never for slowness.
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

from parts import Origin, RcloneMount, ReelMount, Trouble, drop_page_cache, run
from table import print_table

MIB = 1 << 20
# Enough to even out, little beside the sequential passes: 32 MiB and 256 MiB of reads.
RANDOM_READS = {"random 4 KiB": (4 << 10, 8192), "random 128 KiB": (128 << 10, 2048)}
ENTRIES = 10_000


def size_of(text):
    unit = "KMGT".find(text[-1].upper())
    return int(text[:-1]) << 10 * (unit + 1) if unit >= 0 else int(text)


def write_random_file(path, size):
    with open(path, "wb") as file:
        for _ in range(0, size, MIB):
            file.write(os.urandom(MIB))
        file.truncate(size)
        os.fsync(file.fileno())


class Bench:
    def __init__(self, program, work, stack):
        self.program, self.work, self.stack = program, work, stack
        self.size = size_of(os.environ.get("SIZE", "1G"))
        self.rounds = int(os.environ.get("ROUNDS", "3"))
        if shutil.disk_usage(work).free < 5 * self.size:
            raise Trouble(f"{work.parent} has not five times SIZE free: set BENCH_DIR or SIZE")
        self.figures = {}
        self.has_rclone = shutil.which("rclone") is not None
        self.local = work / "curl.bin"
        root = work / "root"
        (root / "many").mkdir(parents=True)
        write_random_file(root / "film.bin", self.size)
        for number in range(ENTRIES):
            (root / "many" / f"{number:05}.txt").write_text("x")
        self.original = root / "film.bin"
        self.origin = Origin(root, work)
        stack.callback(self.origin.close)

    def add(self, row, who, value):
        self.figures.setdefault((row, who), []).append(value)

    def mount_all(self, number):
        mounts = {"reelfs": ReelMount(self.program, self.origin.url, self.work / "reelfs", self.work / f"reel-{number}")}
        self.stack.callback(mounts["reelfs"].close)
        if self.has_rclone:
            mounts["rclone"] = RcloneMount(self.origin.url, self.work / "rclone", self.work / f"rclone-{number}")
            self.stack.callback(mounts["rclone"].close)
        return mounts

    def one_round(self, number):
        mounts = self.mount_all(number)
        subjects = list(mounts) + ["local"]
        order = subjects[number % len(subjects):] + subjects[:number % len(subjects)]
        self.local.unlink(missing_ok=True)
        for who in order:
            self.cold(who, mounts.get(who))
        for who in order:
            self.warm_and_hot(who, mounts.get(who))
        for row, (length, count) in RANDOM_READS.items():
            for who in order:
                self.random_reads(row, who, mounts.get(who), length, count)
        if number == 0:
            run("cmp", mounts["reelfs"].file("film.bin"), self.original)
        for mount in mounts.values():
            mount.forget()

    def path(self, mount):
        return mount.file("film.bin") if mount else self.local

    def cold(self, who, mount):
        # The origin's own disk is not what is measured.
        run("dd", f"if={self.original}", "of=/dev/null", "bs=1M", "status=none")
        os.sync()
        before = self.origin.sent()[1]
        if not mount:
            self.add("cold", "curl", self.speed(run("curl", "-sf", "-o", self.local, self.origin.url + "film.bin")))
            return
        cpu = mount.cpu_seconds()
        self.add("cold", who, self.speed(self.read_whole(mount)))
        self.add("CPU, cold", who, (mount.cpu_seconds() - cpu) * (1 << 30) / self.size)
        self.add("memory", who, mount.peak_memory())
        self.add("sent, cold", who, (self.origin.sent()[1] - before) / self.size)

    def warm_and_hot(self, who, mount):
        before = self.origin.sent()[1]
        drop_page_cache(self.local, *([mount.cache, self.path(mount)] if mount else []))
        cpu = mount.cpu_seconds() if mount else 0
        self.add("warm", who, self.speed(self.read_whole(mount)))
        if mount:
            self.add("CPU, warm", who, (mount.cpu_seconds() - cpu) * (1 << 30) / self.size)
        for _ in range(3):
            self.add("hot", who, self.speed(self.read_whole(mount)))
        if mount:
            self.add("sent, again", who, (self.origin.sent()[1] - before) / self.size)

    def random_reads(self, row, who, mount, length, count):
        """Thousands of reads a second, at seeded offsets, cached on disk but not in memory."""
        drop_page_cache(self.local, *([mount.cache, self.path(mount)] if mount else []))
        places = random.Random(length)
        offsets = [places.randrange(self.size // length) * length for _ in range(count)]
        descriptor = os.open(self.path(mount), os.O_RDONLY)
        start = time.monotonic()
        for offset in offsets:
            if len(os.pread(descriptor, length, offset)) != length:
                raise Trouble(f"{who}: a short read at {offset}")
        self.add(row, who, count / (time.monotonic() - start) / 1000)
        os.close(descriptor)

    def read_whole(self, mount):
        return run("dd", f"if={self.path(mount)}", "of=/dev/null", "bs=1M", "status=none")

    def speed(self, seconds):
        """MB/s, the unit of curl's and dd's reports."""
        return self.size / seconds / 1e6

    def shared_and_remounted(self):
        """Eight readers at once, then everything once more after a remount."""
        mount = ReelMount(self.program, self.origin.url, self.work / "reelfs", self.work / "reel-shared")
        self.stack.callback(mount.close)
        before = self.origin.sent()[1]
        readers = [subprocess.Popen(["cat", mount.file("film.bin")], stdout=subprocess.DEVNULL) for _ in range(8)]
        if any([reader.wait(600) for reader in readers]):
            raise Trouble("one of eight readers failed")
        middle = self.origin.sent()[1]
        self.add("sent, 8 readers", "reelfs", (middle - before) / self.size)
        mount.close()
        mount.open()
        self.read_whole(mount)
        self.add("sent, remounted", "reelfs", (self.origin.sent()[1] - middle) / self.size)
        mount.forget()

    def listing(self):
        mount = ReelMount(self.program, self.origin.url, self.work / "reelfs", self.work / "reel-many")
        self.stack.callback(mount.close)
        before, memory = self.origin.sent()[0], mount.peak_memory()
        self.add("listing", "reelfs", run("ls", "-l", mount.file("many")) * 1000)
        self.add("listing, memory", "reelfs", mount.peak_memory() - memory)
        self.add("listing, requests", "reelfs", self.origin.sent()[0] - before)
        mount.forget()

    def run(self):
        for number in range(self.rounds):
            print(f"round {number + 1} of {self.rounds} …", file=sys.stderr)
            self.one_round(number)
        self.shared_and_remounted()
        self.listing()
        medians = {key: statistics.median(values) for key, values in self.figures.items()}
        print_table(medians, self.size, self.rounds)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        parent = os.environ.get("BENCH_DIR", "/var/tmp")
        work = pathlib.Path(tempfile.mkdtemp(prefix="reelfs-bench.", dir=parent)).resolve()
        # Runs last: everything else below ends first. A mount that would not go must not be emptied through.
        stack.callback(lambda: str(work) in pathlib.Path("/proc/mounts").read_text() or shutil.rmtree(work))
        Bench(program, work, stack).run()


try:
    main()
except (Trouble, OSError, subprocess.TimeoutExpired) as trouble:
    sys.exit(f"bench: {trouble}")
except KeyboardInterrupt:
    sys.exit(130)
