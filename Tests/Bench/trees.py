"""Large trees: what listing them costs the daemon, in time and in memory for each entry."""

import contextlib
import http.server
import os
import socketserver
import sys
import threading

from parts import Trouble, run
from table import Row, Want

FLAT = 100_000
TITLE = "trees, listed on loopback"
ROWS = [
    Row("deep", "ls -lR of directories, memory for a file, bytes", 0, (Want("<", 300),)),
    Row("deep, CPU", "  CPU for a file, µs", 1),
    Row("deep, requests", "  requests for a directory", 2, (Want("<=", 1),)),
    Row("flat", f"ls -l of {FLAT:,} files in one, memory for a file, bytes", 0, (Want("<", 300),)),
    Row("flat, CPU", "  CPU for a file, µs", 1),
    Row("flat, requests", "  requests", 0, (Want("<=", 1),)),
]


class Tree(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Listings in nginx's words of what is nowhere: `/flat/` has FLAT files; `/deep/` has directories of files."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, directories, files):
        super().__init__(("127.0.0.1", 0), Page)
        self.directories, self.files, self.requests = directories, files, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def names(self, path):
        match path.strip("/").split("/"):
            case [""]:
                return ["deep/", "flat/"]
            case ["flat"]:
                return [f"Some.Show.{number // 100:04}.Episode.{number:06}.mkv" for number in range(FLAT)]
            case ["deep"]:
                return [f"Series%20{number:04}/" for number in range(self.directories)]
            case ["deep", _]:
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


def size():
    words = os.environ.get("TREE", "200x1000").split("x")
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        raise Trouble("TREE is directories times files, as 200x1000")
    return map(int, words)


def one(bench, tree, row, directory, entries, pages):
    with bench.mount("", tree) as mount:
        # A daemon takes some for its first listing, whatever that has.
        run("ls", mount.directory)
        memory, cpu, requests = mount.memory(), mount.cpu_seconds(), tree.requests
        run("ls", "-lR", mount.file(directory), seconds=1800)
        bench.figures.add(row, mount.column, (mount.memory() - memory) * (1 << 20) / entries)
        bench.figures.add(f"{row}, CPU", mount.column, (mount.cpu_seconds() - cpu) * 1e6 / entries)
        bench.figures.add(f"{row}, requests", mount.column, (tree.requests - requests) / pages)


def measure(bench):
    directories, files = size()
    print(f"trees, {directories} directories of {files} files …", file=sys.stderr)
    with contextlib.closing(Tree(directories, files)) as tree:
        # With the one of the directories themselves.
        one(bench, tree, "deep", "deep", directories * files, directories + 1)
        one(bench, tree, "flat", "flat", FLAT, 1)
