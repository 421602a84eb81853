"""metadata.py PROGRAM  large trees: what listing them costs the daemon, in time and in memory for each entry.

The tree is generated on loopback, in nginx's words; the large one is TREE (200x1000) directories times files. `cases` gives rows
of text, figure and bound (or None); a bound is what is wanted at most. Exit status 1 when something fails, never for slowness.
"""

import contextlib
import http.server
import os
import pathlib
import re
import shutil
import signal
import socketserver
import sys
import tempfile
import threading

from parts import ReelMount, Trouble, run

FLAT = 100_000


class Tree(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """`/flat/` has FLAT files; `/deep/` has directories of files. A page counts as one request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, directories, files):
        super().__init__(("127.0.0.1", 0), Page)
        self.directories, self.files, self.requests = directories, files, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def names(self, path):
        parts = path.strip("/").split("/")
        if parts == ["flat"]:
            return [f"Some.Show.{number // 100:04}.Episode.{number:06}.mkv" for number in range(FLAT)]
        if parts == ["deep"]:
            return [f"Series%20{number:04}/" for number in range(self.directories)]
        if len(parts) == 2 and parts[0] == "deep":
            return [f"Some.Show.Episode.{number:06}.mkv" for number in range(self.files)]
        return None

    def close(self):
        self.shutdown()
        self.server_close()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        names = self.server.names(self.path) if self.path.endswith("/") else None
        if names is None:
            return self.send_error(404)
        self.server.requests += 1
        lines = "".join(f'<a href="{name}">{name}</a>    06-May-2024 07:08    '
                        f'{"-" if name.endswith("/") else 1_000_000}\n' for name in names)
        body = (f"<html><head><title>Index of {self.path}</title></head><body><h1>Index of {self.path}</h1><hr><pre>"
                f'<a href="../">../</a>\n{lines}</pre></body></html>\n').encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def resident(mount):
    """MiB that are resident now."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{mount.pid}/status").read_text())[1]) / 1024


def cases(program, work):
    directories, files = map(int, os.environ.get("TREE", "200x1000").split("x"))
    tree = Tree(directories, files)
    rows = []
    with contextlib.closing(tree):
        # What a daemon takes that has listed next to nothing.
        mount = ReelMount(program, tree.url + "deep/", work / "mount", work / "cache-deep")
        with contextlib.closing(mount):
            start, requests, cpu = resident(mount), tree.requests, mount.cpu_seconds()
            run("ls", "-lR", mount.directory, seconds=1800)
            entries = directories * files
            rows += [
                (f"ls -lR of {entries:,} files, memory for an entry, bytes", (resident(mount) - start) * (1 << 20) / entries,
                 300),
                ("  CPU for an entry, µs", (mount.cpu_seconds() - cpu) * 1e6 / entries, None),
                ("  requests for a directory", (tree.requests - requests) / directories, 1),
            ]
        requests = tree.requests
        mount = ReelMount(program, tree.url + "flat/", work / "mount", work / "cache-flat")
        with contextlib.closing(mount):
            seconds = run("ls", "-l", mount.directory)
            rows += [
                (f"ls -l of {FLAT:,} files in one directory, ms", seconds * 1000, None),
                ("  once more, ms", run("ls", "-l", mount.directory) * 1000, None),
                ("  memory at most, MiB", mount.peak_memory(), None),
                ("  memory for an entry afterwards, bytes", (resident(mount) - start) * (1 << 20) / FLAT, 300),
                ("  requests", tree.requests - requests, 1),
            ]
    return rows


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    program = pathlib.Path(sys.argv[1]).resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="reelfs-bench.", dir=os.environ.get("BENCH_DIR", "/var/tmp"))).resolve()
    try:
        for text, figure, bound in cases(program, work):
            verdict = "" if bound is None else f"  <= {bound}: {'yes' if figure <= bound else 'NO'}"
            print(f"{text:60} {figure:10.1f}{verdict}")
    finally:
        if str(work) not in pathlib.Path("/proc/mounts").read_text():
            shutil.rmtree(work)


if __name__ == "__main__":
    try:
        main()
    except (Trouble, OSError) as trouble:
        sys.exit(f"metadata: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
