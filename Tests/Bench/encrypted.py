"""What `--encrypt` costs: the large file on loopback, in a cache that is encrypted and in a plain one."""

import contextlib
import shutil
import sys

from reads import Reads
from table import Row, Want

TITLE = "encrypted"
ROWS = [
    Row("cold", "first read, MB/s", 0, (Want(">=", 0.9, "reelfs", "encrypted"),)),
    Row("warm", "from the disk, MB/s", 0,
        (Want(">=", 0.5, "local", "encrypted"), Want(">=", 1, "rclone", "encrypted"))),
    Row("random, 1 job", "random 4 KiB from the disk, 1 job, 1000/s", 1, (Want(">=", 1, "rclone", "encrypted"),)),
    Row("random, 8 jobs", "  8 jobs", 1, (Want(">=", 1, "rclone", "encrypted"),)),
    Row("CPU, cold", "first read, CPU s/GiB", 2),
    Row("CPU, warm", "from the disk, CPU s/GiB", 2, (Want("<=", 0.5, None, "encrypted"),)),
    Row("memory", "peak memory, MiB", 1, (Want("<=", 64, None, "encrypted"),)),
    Row("sent, cold", "origin sent, × length: first read", 3, (Want("<=", 1.01, None, "encrypted"),)),
    Row("sent, again", "  read again", 3, (Want("<=", 0, None, "encrypted"),)),
]
# What a plain and an encrypted first read differ by is less than what one differs from the next.
COLD = 8
WARM = 3


class Encrypted(Reads):
    def __init__(self, bench):
        super().__init__(bench, "encrypted")
        self.subjects = ["reelfs", "encrypted"] + (["rclone"] if shutil.which("rclone") else [])
        self.key = bench.work / "key"
        self.key.write_text("5e" * 32)
        self.key.chmod(0o600)

    def mount(self, who):
        options = ["--encrypt", f"file:{self.key}"] if who == "encrypted" else []
        return self.bench.mount("encrypted/", who=who, options=options)

    def one_round(self, number):
        self.local.unlink(missing_ok=True)
        for again in range(COLD):
            pair = ["reelfs", "encrypted"]
            # What comes second finds other dirty pages.
            for who in pair if (number + again) % 2 else reversed(pair):
                with self.mount(who) as mount:
                    self.cold(who, mount)
        with contextlib.ExitStack() as stack:
            mounts = {who: stack.enter_context(self.mount(who)) for who in self.subjects}
            self.cold("local", None)
            for who, mount in mounts.items():
                mount.run("cat", mount.file("film.bin"))
            for _ in range(WARM):
                for who in [*self.subjects, "local"]:
                    self.warm(who, mounts.get(who))
            for jobs in (1, 8) if shutil.which("fio") else ():
                for who in [*self.subjects, "local"]:
                    self.random_reads(who, mounts.get(who), jobs)
            for who, mount in mounts.items():
                self.figures.add("memory", who, mount.peak_memory())
            if number == 0:
                mount = mounts["encrypted"]
                mount.run("cmp", mount.file("film.bin"), self.original)


def measure(bench):
    encrypted = Encrypted(bench)
    for number in range(bench.rounds):
        print(f"encrypted, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        encrypted.one_round(number)
    encrypted.forget()
