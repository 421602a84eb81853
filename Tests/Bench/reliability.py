"""reliability.py PROGRAM [CASE…]  faults, and what readers met: one table of reads, wrong bytes, errors, waits, bytes
fetched again. Cases are the methods that CASES names; without any, all of them.

Variables: KILLS (20) times kill -9, LINKS (160) that expire, SEED, BENCH_DIR (/var/tmp). The full disk needs root, as it is a tmpfs of its own.
Exit status 1 for one wrong byte or where a figure cannot be had, never for a slow machine.
"""

import contextlib
import os
import pathlib
import random
import signal
import sys
import threading
import time

import faulty
from parts import ReelMount, Trouble, run, wait_until
from session import session

MIB = 1 << 20
SIZE = 32 * MIB
TIMEOUT = 5
CAP = 64 * MIB
EXTENT = 8 * MIB
# Of the film over expiring links: bytes a second, and seconds; readahead asks for a link in two seconds of three.
FILM_RATE = MIB
LINKS = int(os.environ.get("LINKS", "160"))
CASES = ["origin_faults", "expiring_links", "damaged_cache", "full_disk", "crashes", "crash_in_a_cold_read", "restarts",
         "cap"]


class FaultMount(ReelMount):
    """A mount with a deadline that can be waited for, and a crash."""

    def open(self):
        run(self.program, "mount", self.url, self.directory, "--cache-dir", self.cache, "--timeout", str(TIMEOUT),
            *self.options, seconds=40)
        self.find()

    def find(self):
        found = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if self.is_mine(path)]
        if len(found) != 1:
            raise Trouble(f"{len(found)} daemons serve {self.directory}")
        self.pid = int(found[0].parent.name)

    def is_mine(self, path):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            return False
        return words[:2] == [b"reelfs", b"daemon"] and str(self.directory).encode() in words

    def restart(self):
        run(self.program, "restart", self.directory, seconds=40)
        # The old daemon closes its files last.
        wait_until(lambda: not self.is_mine(pathlib.Path(f"/proc/{self.pid}/cmdline")), 40, "the old daemon stays")
        self.find()

    def crash(self):
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not pathlib.Path(f"/proc/{self.pid}/stat").exists(), 10, "the daemon outlives kill -9")

    def close(self):
        # A daemon that crashed is healed over by the next mount, or let go of here.
        if self.is_mounted() and not pathlib.Path(f"/proc/{self.pid}").exists():
            run("umount", "-l", self.directory)
        super().close()

    def data_files(self):
        return [path for path in self.cache.glob("*/objects/*/*") if path.stat().st_size == SIZE]

    def bytes_on_disk(self):
        total = 0
        for path in [self.cache, *self.cache.rglob("*")]:
            with contextlib.suppress(OSError):
                total += path.lstat().st_blocks * 512
        return total


class Reliability:
    def __init__(self, program, work, stack):
        self.program, self.work, self.stack = program, work, stack
        self.seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        self.kills = int(os.environ.get("KILLS", "20"))
        self.random = random.Random(self.seed)
        self.lines, self.wrong, self.number = [], 0, 0

    def scene(self, size=SIZE, options=(), cache=None):
        """An origin and a mount of their own for each fault."""
        self.number += 1
        origin = faulty.FaultyOrigin(size)
        self.stack.callback(origin.close)
        cache = cache or self.work / f"cache-{self.number}"
        mount = FaultMount(self.program, origin.url, self.work / "mount", cache, options=options)
        self.stack.callback(mount.close)
        return origin, mount, faulty.Readers(origin.data, self.seed)

    def note(self, name, readers, again=None, remark=""):
        self.wrong += readers.wrong
        errors = ", ".join(f"{count} {name}" for name, count in sorted(readers.errors.items())) or "none"
        self.lines.append([name, str(readers.reads), str(readers.wrong), errors, f"{readers.longest:.2f}",
                           "-" if again is None else f"{again / MIB:.1f}", remark])
        print(f"  {name}", file=sys.stderr)

    def origin_faults(self):
        faults = {"connections reset": faulty.reset, "bodies cut short": faulty.short_body,
                  "500": faulty.server_error, "200 for a range": faulty.whole_file,
                  "another range than asked": faulty.other_range}
        for name, fault in faults.items():
            origin, mount, readers = self.scene()
            origin.fault = fault
            readers.all_shapes(mount.file("film.bin"))
            self.note(f"origin: {name}", readers)
            mount.forget()
        origin, mount, readers = self.scene()
        readers.once(mount.file("film.bin"), ["in order"])
        origin.close()
        mount.close()
        mount.open()
        readers.all_shapes(mount.file("film.bin"))
        self.note("origin: away, remounted", readers)
        mount.forget()

    def damaged_cache(self):
        def cut(path):
            os.truncate(path, SIZE // 3)

        def cut_and_grown(path):
            cut(path)
            os.truncate(path, SIZE)

        def flipped(path):
            with open(path, "r+b") as file:
                for _ in range(10):
                    place = self.random.randrange(SIZE)
                    file.seek(place)
                    byte = file.read(1)[0] ^ 1 << self.random.randrange(8)
                    file.seek(place)
                    file.write(bytes([byte]))

        for name, damage in {"cut": cut, "cut and grown": cut_and_grown, "ten bits flipped": flipped,
                             "deleted": os.unlink}.items():
            self.damage(f"data file: {name}", lambda mount, damage=damage: [damage(path) for path in mount.data_files()])
        self.damage("index: noise", lambda mount: [
            path.write_bytes(self.random.randbytes(100_000)) for path in mount.cache.glob("*/index.sqlite")])

    def damage(self, name, damage):
        origin, mount, readers = self.scene()
        readers.once(mount.file("film.bin"), ["in order"])
        mount.close()
        damage(mount)
        before = origin.asked
        mount.open()
        readers.all_shapes(mount.file("film.bin"))
        self.note(name, readers, origin.asked - before)
        mount.forget()

    def full_disk(self):
        if os.geteuid() != 0:
            return
        disk = self.work / "disk"
        disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk)
        self.stack.callback(lambda: run("umount", "-l", disk))
        _, mount, readers = self.scene(options=["--cache-size", "1G"], cache=disk / "cache")
        film = mount.file("film.bin")
        readers.once(film, ["at random"])
        with contextlib.suppress(OSError), open(disk / "foreign", "wb", buffering=0) as file:
            while file.write(bytes(64 << 10)):
                pass
        readers.all_shapes(film)
        (disk / "foreign").unlink(missing_ok=True)
        readers.all_shapes(film)
        self.note("cache's disk full, and freed", readers)
        mount.close()

    def crashes(self):
        origin, mount, readers = self.scene()
        origin.fault = faulty.drip
        for _ in range(self.kills):
            shape = self.random.choice(readers.SHAPES)
            reading = threading.Thread(target=readers.once, args=(mount.file("film.bin"), shape))
            before, more = readers.reads, self.random.randrange(1, 200)
            reading.start()
            wait_until(lambda: readers.reads >= before + more or not reading.is_alive(), 60, "reading does not go on")
            mount.crash()
            reading.join()
            mount.open()
        # What the end of a mount means for its readers is no finding.
        readers.errors = {name: count for name, count in readers.errors.items()
                          if name not in ("ENOTCONN", "ECONNABORTED", "EIO")}
        origin.fault = None
        readers.all_shapes(mount.file("film.bin"))
        self.note(f"kill -9, {self.kills} times", readers)
        mount.forget()

    def crash_in_a_cold_read(self):
        origin, mount, readers = self.scene()
        origin.fault = faulty.drip
        reading = threading.Thread(target=readers.once, args=(mount.file("film.bin"), ["in order"]))
        reading.start()
        goal = SIZE * 3 // 4 // readers.CHUNK
        wait_until(lambda: readers.reads >= goal or not reading.is_alive(), 120, "reading does not go on")
        mount.crash()
        reading.join()
        readers.errors.clear()
        origin.fault = None
        before = origin.asked
        mount.open()
        readers.all_shapes(mount.file("film.bin"))
        again = origin.asked - before - (SIZE - goal * readers.CHUNK)
        self.note("kill -9 after 24 of 32 MiB, at 8 MB/s", readers, max(0, again), "wanted: at most 16 MiB")
        mount.forget()

    def restarts(self):
        """Three programs read a film in different ways, cold and warm, over ten daemons."""
        origin, mount, readers = self.scene()
        origin.fault = faulty.drip
        film, stop = mount.file("film.bin"), threading.Event()

        def read(shape):
            while not stop.is_set():
                readers.once(film, shape)

        threads = [threading.Thread(target=read, args=(shape,)) for shape in readers.SHAPES[:3]]
        for thread in threads:
            thread.start()
        for _ in range(10):
            before, more = readers.reads, self.random.randrange(20, 200)
            wait_until(lambda: readers.reads >= before + more, 60, "reading does not go on")
            mount.restart()
        origin.fault = None
        stop.set()
        for thread in threads:
            thread.join()
        readers.all_shapes(film)
        verdict = "yes" if readers.longest <= 1 and not readers.errors else "NO"
        self.note("restart, 10 times", readers, None, f"wanted: no error, no read over 1 s: {verdict}")
        mount.forget()

    def cap(self):
        size = 256 * MIB
        _, mount, readers = self.scene(size=size, options=["--cache-size", "64M"])
        largest, stop = [0], threading.Event()

        def look():
            while not stop.wait(0.005):
                largest[0] = max(largest[0], mount.bytes_on_disk())

        looking = threading.Thread(target=look)
        looking.start()
        try:
            readers.all_shapes(mount.file("film.bin"))
        finally:
            stop.set()
            looking.join()
        verdict = "yes" if largest[0] <= CAP + EXTENT else "NO"
        self.note("256 MiB through a cap of 64 MiB", readers, None,
                  f"{largest[0] / MIB:.1f} MiB on the disk at most, wanted <= 72: {verdict}")
        mount.forget()

    def expiring_links(self):
        """A film is played over links that are good for a second each; readahead has no room to be done with it sooner."""
        resolver = self.work / "resolver"
        resolver.write_text(faulty.RESOLVER)
        links = faulty.ExpiringLinks(bytes_a_second=4 * FILM_RATE)
        options = ["--resolver", f"python3 {resolver}", "--cache-size", "8M"]
        origin, mount, readers = self.scene(size=LINKS * FILM_RATE, options=options)
        origin.fault = links.fault
        readers.play(mount.file("film.bin"), FILM_RATE)
        enough = LINKS * 5 // 8
        is_well = readers.longest <= 1 and not readers.errors and len(links.seen) >= enough
        self.note("links that end after a second", readers, None,
                  f"{len(links.seen)} links, {links.refused} refusals; wanted: no error, no read over 1 s, >= {enough} "
                  f"links: {'yes' if is_well else 'NO'}")
        mount.forget()

    def run(self, cases):
        strange = [case for case in cases if case not in CASES]
        if strange:
            raise Trouble(f"there is no case {strange[0]}; there are {', '.join(CASES)}")
        for case in cases or CASES:
            getattr(self, case)()
        self.print_table()
        if self.wrong:
            raise Trouble(f"{self.wrong} reads gave wrong bytes; seed {self.seed}")

    def print_table(self):
        head = ["fault", "reads", "wrong", "errors", "longest wait, s", "fetched again, MiB", ""]
        total = sum(int(line[1]) for line in self.lines)
        longest = max((float(line[4]) for line in self.lines), default=0)
        verdict = "yes" if longest <= TIMEOUT + 1 else "NO"
        foot = [f"{len(self.lines)} faults", str(total), str(self.wrong), "", f"{longest:.2f}", "",
                f"wanted: 0 wrong; <= {TIMEOUT + 1} s: {verdict}"]
        rows = [head, *self.lines, foot]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        print(f"\n{SIZE // MIB} MiB, deadline {TIMEOUT} s, seed {self.seed}\n")
        for row in rows:
            cells = [cell.rjust(width) if column in (1, 2, 4, 5) else cell.ljust(width)
                     for column, (cell, width) in enumerate(zip(row, widths))]
            print("  ".join(cells).rstrip())


def main(program, words, work, stack):
    start = time.monotonic()
    Reliability(program, work, stack).run(words)
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    session("reliability", main)
