"""The HTTP server of a mount beside nginx with sendfile, and beside the mount itself."""

import contextlib
import re
import shutil
import socket
import subprocess
import sys

from parts import Trouble, run
from reads import write_random_file
from table import Row, Want

IDLE = 100
TITLE = "serve"
ROWS = [
    Row("cached", "cached, from memory, MB/s", 0, (Want(">=", 0.8, "nginx"),)),
    Row("cold", "not cached, MB/s", 0, (Want(">=", 0.9, "mount"),)),
    Row("CPU, cached", "cached, CPU s/GiB", 2),
    Row("idle", f"memory of {IDLE} idle connections, MiB", 1, (Want("<=", 4),)),
]


class Serve:
    def __init__(self, bench):
        self.bench, self.figures = bench, bench.figures
        self.original = bench.directory("serve") / "film.bin"
        write_random_file(self.original, bench.size)

    def speed(self, seconds):
        return self.bench.size / seconds / 1e6

    @contextlib.contextmanager
    def mount(self):
        with self.bench.mount("serve/", options=["--listen", "127.0.0.1:0"]) as mount:
            status = subprocess.run([self.bench.program, "status", mount.directory, "--json"], capture_output=True, text=True)
            found = re.search(r'"listening":"http://127.0.0.1:(\d+)/"', status.stdout)
            if not found:
                raise Trouble("reelfs status does not tell where the mount listens")
            yield mount, int(found[1])

    def fetch(self, url, to="/dev/null"):
        return self.speed(run("curl", "-sf", "-o", to, url))

    def cold(self):
        """Both store and hand on; the file of nginx is in memory."""
        for who in ["mount", "reelfs"]:
            with self.mount() as (mount, port):
                run("cat", self.original)
                if who == "mount":
                    seconds = run("dd", f"if={mount.file('film.bin')}", "of=/dev/null", "bs=1M", "status=none")
                    self.figures.add("cold", who, self.speed(seconds))
                else:
                    self.figures.add("cold", who, self.fetch(f"http://127.0.0.1:{port}/files/film.bin"))

    def cached(self):
        with self.mount() as (mount, port):
            url = f"http://127.0.0.1:{port}/files/film.bin"
            # Once to fetch it, once to verify it.
            for _ in range(2):
                run("curl", "-sf", "-o", "/dev/null", url)
            for _ in range(5):
                self.figures.add("cached", "nginx", self.fetch(self.bench.origin.url + "serve/film.bin"))
                cpu = mount.cpu_seconds()
                self.figures.add("cached", "reelfs", self.fetch(url))
                self.figures.add("CPU, cached", "reelfs", (mount.cpu_seconds() - cpu) * (1 << 30) / self.bench.size)
            self.idle(mount, port)

    def idle(self, mount, port):
        before = resident(mount.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(IDLE):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
                client.sendall(b"HEAD /files/film.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while b"\r\n\r\n" not in client.recv(4096):
                    pass
            self.figures.add("idle", "reelfs", (resident(mount.pid) - before) / 1024)


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


def measure(bench):
    serve = Serve(bench)
    for number in range(bench.rounds):
        print(f"serve, round {number + 1} of {bench.rounds} …", file=sys.stderr)
        serve.cold()
        serve.cached()
    shutil.rmtree(bench.root / "serve")
