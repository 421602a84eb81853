"""Whole reads, random reads, CPU and memory: the large file on loopback, the local disk being the limit."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys

import floor
from parts import Trouble, drop_page_cache, run
from table import Row, Want

MIB = 1 << 20
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
# Of all jobs together: enough to even out, little beside the sequential passes.
RANDOM_READS = 16_384


def write_random_file(path, size):
    with open(path, "wb") as file:
        for _ in range(0, size, MIB):
            file.write(os.urandom(MIB))
        file.truncate(size)
        os.fsync(file.fileno())


class Throughput:
    def __init__(self, bench):
        self.bench, self.figures, self.size = bench, bench.figures, bench.size
        if shutil.disk_usage(bench.work).free < 6 * self.size:
            raise Trouble(f"{bench.work.parent} has not six times SIZE free: set BENCH_DIR or SIZE")
        self.original = bench.directory("throughput") / "film.bin"
        write_random_file(self.original, self.size)
        self.url = bench.origin.url + "throughput/film.bin"
        self.local = bench.work / "curl.bin"
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
            mounts = {who: stack.enter_context(self.bench.mount("throughput/", who=who)) for who in self.subjects}
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

    def cold(self, who, mount):
        # The origin's own disk is not what is measured, nor what others have left to be written.
        run("dd", f"if={self.original}", "of=/dev/null", "bs=1M", "status=none")
        os.sync()
        before = self.bench.origin.sent()[1]
        if not mount:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.figures.add("cold", "curl", self.speed(run("curl", "-sf", "-o", self.local, self.url)))
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.add_cpu("CPU, cold", "curl", now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime)
            return
        cpu = mount.cpu_seconds()
        self.figures.add("cold", who, self.speed(self.read(mount)))
        self.add_cpu("CPU, cold", who, mount.cpu_seconds() - cpu)
        self.figures.add("sent, cold", who, (self.bench.origin.sent()[1] - before) / self.size)

    def warm(self, who, mount):
        self.drop(mount)
        before, cpu = self.bench.origin.sent()[1], mount.cpu_seconds() if mount else 0
        self.figures.add("warm", who, self.speed(self.read(mount)))
        if mount:
            self.add_cpu("CPU, warm", who, mount.cpu_seconds() - cpu)
            self.figures.add("sent, again", who, (self.bench.origin.sent()[1] - before) / self.size)

    def remounted(self, who, mount):
        """The first read after a start holds each block against its checksum."""
        mount.close()
        mount.open()
        self.drop(mount)
        before = self.bench.origin.sent()[1]
        self.figures.add("remounted", who, self.speed(self.read(mount)))
        self.figures.add("sent, remounted", who, (self.bench.origin.sent()[1] - before) / self.size)

    def random_reads(self, who, mount, jobs):
        """The same places for everybody, cached on the disk and not in memory."""
        self.drop(mount)
        words = ["fio", "--name=random", f"--filename={self.path(mount)}", "--readonly", "--rw=randread", "--bs=4k",
                 "--ioengine=psync", "--thread", f"--numjobs={jobs}", "--norandommap", "--randrepeat=1",
                 f"--size={self.size}", f"--io_size={RANDOM_READS // jobs * 4096}", "--group_reporting", "--output-format=json"]
        done = subprocess.run([*(mount.words if mount else []), *words], stdin=subprocess.DEVNULL, cwd="/",
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Trouble(f"fio: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        report = json.loads(done.stdout[done.stdout.index("{"):])
        row = f"random, {jobs} job{'s' if jobs > 1 else ''}"
        self.figures.add(row, who, report["jobs"][0]["read"]["iops"] / 1000)

    def eight_readers(self):
        who = self.subjects[0]
        with self.bench.mount("throughput/", who=who) as mount:
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

    def path(self, mount):
        return mount.file("film.bin") if mount else self.local

    def drop(self, mount):
        drop_page_cache(self.local, *([mount.cache, self.path(mount)] if mount else []))

    def read(self, mount):
        words = ["dd", f"if={self.path(mount)}", "of=/dev/null", "bs=1M", "status=none"]
        return mount.run(*words) if mount else run(*words)

    def speed(self, seconds):
        """MB/s, the unit of curl's and dd's reports."""
        return self.size / seconds / 1e6

    def add_cpu(self, row, who, seconds):
        self.figures.add(row, who, seconds * (1 << 30) / self.size)


def measure(bench):
    throughput = Throughput(bench)
    for number in range(bench.rounds):
        print(f"throughput, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        throughput.one_round(number)
    throughput.eight_readers()
    shutil.rmtree(bench.root / "throughput")
    throughput.local.unlink()
