"""Whole reads, random reads, CPU and memory: the large file on loopback, the local disk being the limit."""

import contextlib
import os
import shutil
import subprocess
import sys

import floor
from parts import Trouble
from reads import Reads
from table import Row, Want

TITLE = "throughput"
ROWS = [
    Row("cold", "first read, MB/s", 0, (Want(">=", 0.8, "curl"), Want(">=", 2.5, "rclone"))),
    Row("warm", "from the disk, MB/s", 0, (Want(">=", 0.95, "local"), Want(">=", 0.9, "local", "as user"))),
    Row("hot", "once more, from memory, MB/s", 0, (Want(">=", 0.85, "local"), Want(">=", 0.4, "local", "as user"))),
    Row("random, 1 job", "random 4 KiB from the disk, 1 job, 1000/s", 1,
        (Want(">=", 0.7, "local"), Want(">=", 1.5, "rclone", "as user"))),
    Row("random, 8 jobs", "  8 jobs", 1, (Want(">=", 0.7, "local"), Want(">=", 2, "rclone", "as user"))),
    Row("remounted", "from the disk after a remount, MB/s", 0),
    Row("CPU, cold", "first read, CPU s/GiB", 2, (Want("<=", 2, "relay"),)),
    Row("CPU, warm", "from the disk, CPU s/GiB", 2, (Want("<=", 0.12),)),
    Row("memory", "peak memory, MiB", 1, (Want("<=", 48),)),
    Row("sent, cold", "origin sent, × length: first read", 3, (Want("<=", 1.01),)),
    Row("sent, again", "  read again", 3, (Want("<=", 0),)),
    Row("sent, remounted", "  after a remount", 3, (Want("<=", 0.0001),)),
    Row("sent, 8 readers", "  8 readers at once", 3, (Want("<=", 1.01),)),
]
# What takes half a second, and differs from one time to the next: as often a round.
AGAIN = 5


class Throughput(Reads):
    def __init__(self, bench):
        super().__init__(bench, "throughput")
        # An ordinary user has the second column only: what is wanted of the first takes root.
        self.subjects = ["reelfs", "as user"] if os.geteuid() == 0 else ["as user"]
        self.subjects += ["rclone"] if shutil.which("rclone") else []
        self.floor = floor.build(bench.work, self.size)
        self.floor_kinds = floor.KINDS if self.floor else []

    def one_round(self, number):
        subjects = [*self.subjects, "local"]
        turn = number % len(subjects)
        order = subjects[turn:] + subjects[:turn]
        self.local.unlink(missing_ok=True)
        with contextlib.ExitStack() as stack:
            mounts = {who: stack.enter_context(self.mount(who)) for who in self.subjects}
            for who in order:
                self.cold(who, mounts.get(who))
            for kind in self.floor_kinds:
                with self.floor_mount(kind) as mount:
                    self.cold(kind, mount)
            for again in range(AGAIN):
                for who in order:
                    # Slow, and nothing is wanted beside it here: once is enough.
                    if who != "rclone" or not again:
                        self.warm(who, mounts.get(who))
            for again in range(AGAIN):
                for who in order:
                    # Its memory is its disk's.
                    if who != "rclone" or not again:
                        self.figures.add("hot", who, self.speed(self.read(mounts.get(who))))
            for jobs in (1, 8) if shutil.which("fio") else ():
                for who in order:
                    self.random_reads(who, mounts.get(who), jobs)
            for who, mount in mounts.items():
                self.figures.add("memory", who, mount.peak_memory())
            for who in mounts:
                if who != "rclone":
                    self.remounted(who, mounts[who])
            if number == 0:
                mount = mounts[self.subjects[0]]
                mount.run("cmp", mount.file("film.bin"), self.original)
                for kind in self.floor_kinds:
                    with self.floor_mount(kind) as mount:
                        mount.run("cmp", mount.file("film.bin"), self.original)

    @contextlib.contextmanager
    def floor_mount(self, kind):
        mount = floor.FloorMount(self.floor, kind, self.url, self.size, self.bench.work / f"mnt-{kind}",
                                 self.bench.work / f"data-{kind}")
        try:
            yield mount
        finally:
            mount.forget()

    def remounted(self, who, mount):
        """The first read after a start holds each block against its checksum."""
        mount.close()
        mount.open()
        self.drop(mount)
        before = self.bench.origin.sent()[1]
        self.figures.add("remounted", who, self.speed(self.read(mount)))
        self.figures.add("sent, remounted", who, (self.bench.origin.sent()[1] - before) / self.size)

    def eight_readers(self):
        who = self.subjects[0]
        with self.mount(who) as mount:
            before = self.bench.origin.sent()[1]
            readers = [subprocess.Popen([*mount.words, "cat", mount.file("film.bin")], stdout=subprocess.DEVNULL)
                       for _ in range(8)]
            try:
                if any([reader.wait(600) for reader in readers]):
                    raise Trouble("one of eight readers failed")
            finally:
                for reader in readers:
                    reader.kill()
                    reader.wait()
            self.figures.add("sent, 8 readers", who, (self.bench.origin.sent()[1] - before) / self.size)


def measure(bench):
    throughput = Throughput(bench)
    for number in range(bench.rounds):
        print(f"throughput, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        throughput.one_round(number)
    throughput.eight_readers()
    throughput.forget()
