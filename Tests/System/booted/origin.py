"""The origin of the booted machine: an HTTP server with ranges that counts what it is asked, dies and comes back."""

import http.server
import random
import socket
import threading

FILM_SIZE = 5_000_000


def film(name):
    """The bytes of a film: another name, other bytes."""
    return random.Random(name).randbytes(FILM_SIZE)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        if not name:
            self.answer_listing()
        elif name in self.server.films:
            self.answer_film(name)
        else:
            self.answer(404, b"")

    def answer_listing(self):
        date = "14-Nov-2023 22:13"
        rows = "".join(f'<a href="{name}">{name}</a>   {date}   {FILM_SIZE}\r\n' for name in self.server.films)
        page = f'<html><title>Index of /</title><h1>Index of /</h1><pre><a href="../">../</a>\r\n{rows}</pre></html>'
        self.server.listings += 1
        self.answer(200, page.encode(), {"Content-Type": "text/html"})

    def answer_film(self, name):
        data = self.server.films[name]
        words = {"Accept-Ranges": "bytes", "ETag": f'"{name}"', "Content-Type": "video/x-matroska"}
        asked = self.headers.get("Range")
        if not asked:
            self.server.sent += len(data)
            self.answer(200, data, words)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(data) - 1), len(data) - 1)
        words["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self.server.sent += last + 1 - first
        self.answer(206, data[first:last + 1], words)

    def answer(self, status, body, words=()):
        self.send_response(status)
        for name, value in dict(words).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port, films):
        self.films, self.listings, self.sent, self.open = films, 0, 0, set()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request, address):
        self.open.add(request)
        super().process_request(request, address)

    def shutdown_request(self, request):
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_):
        """A client that goes, or a server that dies, in the middle of an answer."""


class Origin:
    """On loopback of a network that only the driver and its machine share: the port may be fixed."""

    port = 8080

    def __init__(self, *names):
        self.films = {name: film(name) for name in names}
        self.server, self.mute = None, None

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}/{path}"

    def start(self):
        self.stop()
        self.server = Server(self.port, self.films)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        """Dead: connections are refused, and those that were open are cut."""
        if self.mute:
            self.mute.close()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            for connection in list(self.server.open):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.server, self.mute = None, None

    def be_silent(self):
        """Connections are taken, and nothing is ever answered."""
        self.stop()
        self.mute = socket.create_server(("127.0.0.1", self.port), backlog=64)

    @property
    def asked(self):
        """Listings and bytes of films since the last start."""
        return (self.server.listings, self.server.sent) if self.server else (0, 0)
