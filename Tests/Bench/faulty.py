"""An origin of known bytes that misbehaves when it is told to, and readers that check every one of them."""

import contextlib
import errno
import http.server
import os
import random
import re
import socket
import struct
import threading
import time


class FaultyOrigin:
    """A file of seeded bytes, served with ranges by threads of this process.

    `fault` is called with the handler and the range before each answer; where it returns true it has answered itself.
    """

    def __init__(self, size, seed=1):
        chance = random.Random(seed)
        # Python makes at most 256 MiB of them at once.
        self.data = b"".join(chance.randbytes(1 << 20) for _ in range(size >> 20))
        self.fault = None
        self.asked = 0
        self.requests = 0
        self.lock = threading.Lock()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                origin.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """Clients that leave, and answers cut short, are what this is for."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def answer(self, handler):
        if handler.path == "/":
            line = f'<a href="film.bin">film.bin</a>            14-Nov-2023 22:13          {len(self.data)}\r\n'
            return self.send(handler, 200, [("Content-Type", "text/html")],
                             f"<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
                             f'<a href="../">../</a>\r\n{line}</pre></body></html>'.encode())
        if handler.path.partition("?")[0] != "/film.bin":
            return self.send(handler, 404, [], b"")
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        first = int(found[1]) if found else 0
        last = min(int(found[2]) if found and found[2] else len(self.data) - 1, len(self.data) - 1)
        with self.lock:
            self.requests += 1
            self.asked += last + 1 - first
            fault = self.fault
        if fault and fault(self, handler, first, last):
            return None
        self.send(handler, 206 if found else 200, self.headers(first, last, found), self.data[first:last + 1])

    def headers(self, first, last, ranged=True):
        common = [("ETag", '"v1"'), ("Accept-Ranges", "bytes"), ("Content-Type", "video/x-matroska")]
        return common + ([("Content-Range", f"bytes {first}-{last}/{len(self.data)}")] if ranged else [])

    def send(self, handler, status, headers, body, length=None):
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def some_of_the_time(fault):
    """Two requests of three go wrong."""
    turns = iter(range(1 << 30))
    return lambda *words: next(turns) % 3 < 2 and fault(*words)


@some_of_the_time
def reset(origin, handler, first, last):
    # Nothing may be left to send, or the end is an orderly one.
    origin.send(handler, 206, origin.headers(first, last), origin.data[first:min(last + 1, first + 200_000)],
                last + 1 - first)
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    return True


@some_of_the_time
def short_body(origin, handler, first, last):
    origin.send(handler, 206, origin.headers(first, last), origin.data[first:min(last, first + 200_000)],
                last + 1 - first)
    handler.close_connection = True
    return True


@some_of_the_time
def server_error(origin, handler, *_):
    origin.send(handler, 500, [], b"an error\n")
    return True


def whole_file(origin, handler, *_):
    origin.send(handler, 200, origin.headers(0, 0, False), origin.data)
    return True


@some_of_the_time
def other_range(origin, handler, first, last):
    body = origin.data[first + 1:last + 1]
    origin.send(handler, 206, origin.headers(first + 1, last), body)
    return True


def drip(origin, handler, first, last):
    """8 MB/s."""
    origin.send(handler, 206, origin.headers(first, last), b"", last + 1 - first)
    for start in range(first, last + 1, 64 << 10):
        handler.wfile.write(origin.data[start:min(start + (64 << 10), last + 1)])
        time.sleep(0.008)
    return True


# Answers with a link that is good for a second.
RESOLVER = """import json, sys, time
print(json.dumps({"url": json.load(sys.stdin)["url"] + f"?until={time.time() + 1}"}))
"""


class ExpiringLinks:
    """Serves a link until its time, then refuses it; bodies on their way are cut. All share one line."""

    PIECE = 16 << 10

    def __init__(self, bytes_a_second):
        self.lock = threading.Lock()
        self.pause = self.PIECE / bytes_a_second
        self.free = time.monotonic()
        self.seen, self.refused = set(), 0

    def fault(self, origin, handler, first, last):
        link = handler.path.partition("until=")[2]
        if not link or time.time() >= float(link):
            self.refused += 1
            origin.send(handler, 403, [], b"the link has expired\n")
            return True
        self.seen.add(link)
        origin.send(handler, 206, origin.headers(first, last), b"", last + 1 - first)
        for start in range(first, last + 1, self.PIECE):
            self.wait_for_the_line()
            if time.time() >= float(link):
                handler.close_connection = True
                break
            handler.wfile.write(origin.data[start:min(start + self.PIECE, last + 1)])
        return True

    def wait_for_the_line(self):
        with self.lock:
            self.free = max(self.free, time.monotonic()) + self.pause
            turn = self.free
        time.sleep(max(0, turn - time.monotonic()))


class Readers:
    """Reads one file in three ways: in order, at seeded places, both at once. Counts what it meets."""

    CHUNK = 64 << 10
    SHAPES = [["in order"], ["at random"], ["in order", "at random"]]

    def __init__(self, data, seed):
        self.data, self.seed = data, seed
        self.lock = threading.Lock()
        self.reads = self.wrong = 0
        self.errors, self.longest = {}, 0.0

    def all_shapes(self, path):
        for shape in self.SHAPES:
            self.once(path, shape)

    def once(self, path, shape, seconds=None):
        threads = [threading.Thread(target=self.one_pass, args=(path, way)) for way in shape]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)

    def one_pass(self, path, way):
        try:
            with self.timed():
                descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if way == "in order":
                places = [(start, self.CHUNK) for start in range(0, len(self.data), self.CHUNK)]
            else:
                chance = random.Random(self.seed)
                places = [(chance.randrange(len(self.data)), chance.randrange(1, self.CHUNK)) for _ in range(100)]
            for start, count in places:
                self.read(descriptor, start, min(count, len(self.data) - start))
        except ConnectionError:
            return
        finally:
            os.close(descriptor)

    def play(self, path, bytes_a_second):
        """From the beginning to the end, no faster than a film of that rate."""
        descriptor = os.open(path, os.O_RDONLY)
        begin = time.monotonic()
        try:
            for start in range(0, len(self.data), self.CHUNK):
                time.sleep(max(0, begin + start / bytes_a_second - time.monotonic()))
                self.read(descriptor, start, min(self.CHUNK, len(self.data) - start))
        finally:
            os.close(descriptor)

    def read(self, descriptor, start, count):
        done = 0
        while done < count:
            try:
                with self.timed():
                    got = os.pread(descriptor, count - done, start + done)
            except OSError as error:
                # The mount is gone: there is nothing more to read.
                if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
                    raise ConnectionError from error
                return
            if not got or got != self.data[start + done:start + done + len(got)]:
                with self.lock:
                    self.wrong += 1
                return
            done += len(got)

    @contextlib.contextmanager
    def timed(self):
        start = time.monotonic()
        try:
            yield
        except OSError as error:
            with self.lock:
                name = errno.errorcode.get(error.errno, str(error.errno))
                self.errors[name] = self.errors.get(name, 0) + 1
            raise
        finally:
            with self.lock:
                self.reads += 1
                self.longest = max(self.longest, time.monotonic() - start)
