"""bench.py PROGRAM [GROUP…]  reelfs beside curl, the local file, rclone and mpv: medians, ratios, and what is wanted of them.

Groups: throughput, full, encrypted, latency, players, listing, trees, walk, traffic, serve, library,
second, crowd, prefetch, shared; all, if none is named.
Variables: SIZE (1G) of the large file, ROUNDS (3), BENCH_DIR (/var/tmp): a disk with six times SIZE free;
TREE (200x1000): directories times files of the group trees;
DESIGNS ("via moto rclone"): what the mounts of the group shared share;
REFERENCE=write makes this run's ratios the ones that later runs are held against.
What the rows mean: Sources/reelfs/Documentation.docc/Benchmarks.md. Exit status 1 when something fails, never for slowness.
"""

import contextlib
import importlib
import os
import shutil
import stat
import time

from parts import Link, Origin, RcloneMount, ReelMount, Trouble, run
from session import session
from table import Figures, print_against_reference, print_group, print_misses, write_reference

# A module each, with TITLE, ROWS and measure(bench).
GROUPS = ["throughput", "full", "encrypted", "latency", "players", "listing", "trees", "walk", "traffic", "serve",
          "library", "second", "crowd", "prefetch", "shared"]


def size_of(text):
    unit = "KMGT".find(text[-1].upper())
    return int(text[:-1]) << 10 * (unit + 1) if unit >= 0 else int(text)


class Bench:
    """One origin for all groups, and what they mount of it."""

    def __init__(self, program, work, stack):
        self.work, self.stack = work, stack
        self.size = size_of(os.environ.get("SIZE", "1G"))
        self.rounds = int(os.environ.get("ROUNDS", "3"))
        # What takes milliseconds is repeated more often than what takes seconds.
        self.many_rounds = max(7, self.rounds)
        self.mounts = 0
        # Another user has to reach what is measured; and a build meanwhile does not change it.
        work.chmod(0o711)
        self.program = shutil.copy(program, work / "reelfs")
        if os.geteuid() == 0:
            self.open_device()
        self.root = work / "root"
        self.root.mkdir()
        self.origin = Origin(self.root, work)
        stack.callback(self.origin.close)

    def open_device(self):
        """Without udev `/dev/fuse` is root's alone; in this namespace it is everybody's."""
        device = self.work / "fuse"
        os.mknod(device, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
        device.chmod(0o666)
        run("mount", "--bind", device, "/dev/fuse")
        self.stack.callback(run, "umount", "-l", "/dev/fuse")

    def directory(self, name):
        """A new directory of the origin."""
        (self.root / name).mkdir()
        return self.root / name

    @contextlib.contextmanager
    def link(self, delay, rate=0, all_rate=0):
        link = Link(self.origin, delay, rate, all_rate)
        try:
            yield link
        finally:
            link.close()

    @contextlib.contextmanager
    def mount(self, path, way=None, who=None, options=(), environment=()):
        """`path` of the origin, over a link if `way` is one, on an empty cache that goes with it.

        `options` are further words of `reelfs mount`, `environment` what it runs with (`NAME=value`). Its figures belong
        into its `column`: an ordinary user's mounts are not root's.
        """
        self.mounts += 1
        who = who or ("reelfs" if os.geteuid() == 0 else "as user")
        url, place = (way or self.origin).url + path, self.work / f"mnt-{who.replace(' ', '-')}"
        cache = self.work / f"cache-{self.mounts}"
        if who == "rclone":
            mount = RcloneMount(url, place, cache)
        else:
            mount = ReelMount(self.program, url, place, cache, is_nobody=who == "as user" and os.geteuid() == 0,
                              options=options, environment=environment)
        mount.column = who
        try:
            yield mount
        finally:
            mount.forget()


def main(program, words, work, stack):
    strange = [word for word in words if word not in GROUPS]
    if strange:
        raise Trouble(f"there is no group {strange[0]}; there are {', '.join(GROUPS)}")
    start = time.monotonic()
    bench = Bench(program, work, stack)
    print(f"{bench.size / (1 << 20):.0f} MiB, {bench.rounds} rounds, {bench.many_rounds} of what is short; "
          f"{os.cpu_count()} processors, Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}", flush=True)
    findings, references = [], []
    for group in words or GROUPS:
        module = importlib.import_module(group)
        # Groups have rows of the same name.
        bench.figures = Figures()
        module.measure(bench)
        findings += print_group(group, module.TITLE, module.ROWS, bench.figures)
        references += [found for row in module.ROWS for found in bench.figures.references(group, row)]
    print_misses(findings)
    if os.environ.get("REFERENCE") == "write":
        write_reference(references)
    else:
        print_against_reference(references)
    print(f"{time.monotonic() - start:.0f} s")


session("bench", main)
