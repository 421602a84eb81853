"""Reads of one large file on loopback, of which each is a figure: what the groups throughput and encrypted have in common."""

import json
import os
import resource
import shutil
import subprocess

from parts import Trouble, drop_page_cache, run

MIB = 1 << 20
# Of all jobs together: enough to even out, little beside the sequential passes.
RANDOM_READS = 16_384


def write_random_file(path, size):
    with open(path, "wb") as file:
        for _ in range(0, size, MIB):
            file.write(os.urandom(MIB))
        file.truncate(size)
        os.fsync(file.fileno())


class Reads:
    """The file at the origin and, once curl has read it, on the disk; of mounts none is the disk's."""

    def __init__(self, bench, name):
        self.bench, self.figures, self.size, self.name = bench, bench.figures, bench.size, name
        if shutil.disk_usage(bench.work).free < 6 * self.size:
            raise Trouble(f"{bench.work.parent} has not six times SIZE free: set BENCH_DIR or SIZE")
        self.original = bench.directory(name) / "film.bin"
        write_random_file(self.original, self.size)
        self.url = bench.origin.url + f"{name}/film.bin"
        self.local = bench.work / "curl.bin"

    def mount(self, who):
        return self.bench.mount(f"{self.name}/", who=who)

    def forget(self):
        shutil.rmtree(self.bench.root / self.name)
        self.local.unlink(missing_ok=True)

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
