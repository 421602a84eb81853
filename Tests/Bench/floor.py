"""floor.c built and mounted: what a first read costs on this machine without what makes a cache of it."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from parts import Mount, Trouble, run

# What the program does for each: see floor.c.
KINDS = ["relay", "store"]
READAHEAD_KIB = 512
# It writes as much at once.
RUN = 2 << 20


def build(work, size):
    """The program, or None with a sentence on stderr: a machine may do without these columns."""
    compiler = shutil.which("cc") or shutil.which("clang")
    source, program = pathlib.Path(__file__).with_name("floor.c"), work / "floor"
    try:
        if not compiler:
            raise Trouble("there is no C compiler")
        if size % RUN:
            raise Trouble("SIZE is no multiple of 2M")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3", "libxxhash"], check=True,
                               capture_output=True, text=True)
        run(compiler, "-O2", "-pthread", "-o", program, source, *shlex.split(flags.stdout))
        return program
    except (Trouble, OSError, subprocess.SubprocessError) as trouble:
        print(f"no figures of {' and '.join(KINDS)}: {trouble}", file=sys.stderr)
        return None


class FloorMount(Mount):
    """`film.bin` of an origin, which can be read once and from its beginning to its end."""

    def __init__(self, program, kind, url, size, directory, cache):
        self.program, self.kind, self.size = program, kind, size
        address, _, path = url.removeprefix("http://").partition("/")
        self.port, self.path = address.rpartition(":")[2], f"/{path}"
        super().__init__(directory, cache)

    def open(self):
        self.serve("floor", [self.program, self.kind, self.port, self.path, str(self.size), self.directory,
                             self.cache / "data"])
        if os.geteuid() == 0:
            device = os.stat(self.directory).st_dev
            pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb").write_text(str(READAHEAD_KIB))

    def close(self):
        if self.is_mounted():
            run(*(["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]), self.directory)
        else:
            self.process.kill()
        self.process.wait(15)
