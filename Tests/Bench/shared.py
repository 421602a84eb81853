"""Mounts that share a cache or a bucket, each in a network namespace of its own: what the origin sends, and the first byte."""

import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time
import types
import urllib.parse

from latency import DELAY, KIB, curl, first
from parts import Link, ReelMount, Trouble, run, wait_until
from reads import write_random_file
from table import Row, Want

MOUNTS, PAIRS = 8, 20
MIB = 1 << 20
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_REGION": "us-east-1"}
ROOT = pathlib.Path(__file__).parents[2]
TITLE = f"shared: {MOUNTS} mounts, what the origin sends, × length of the film"


def rows(name, text, most):
    yield Row(f"{name}, at once", f"{text}, at once", 3, (Want("<=", most),))
    yield Row(f"{name}, in a row", "  one after the other", 3, (Want("<=", most),))
    yield Row(f"{name}, after", "  then one more, the origin stopped: plays", 0, (Want(">=", 1),))


ROWS = [
    *rows("via", "--via nginx, as its recipe has it", 1.02),
    *rows("moto", "--tier, moto", 1.1),
    *rows("rclone", "--tier, rclone serve s3", 1.1),
    Row("first", f"first 64 KiB through a warm shared cache, over {DELAY} ms, ms", 1, (Want("<=", 1.1, "curl"),)),
    Row("first, near", "  without a delay, ms", 1),
]


class Network:
    """A bridge, and network namespaces on it."""

    def __init__(self, stack, count):
        tag, net = f"rf{os.getpid() % 100_000}", f"10.{random.randrange(64, 128)}.{random.randrange(256)}"
        self.address = f"{net}.1"
        self.names = [f"{tag}-{number}" for number in range(count)]
        run("ip", "link", "add", tag, "type", "bridge")
        stack.callback(run, "ip", "link", "del", tag)
        run("ip", "address", "add", f"{self.address}/24", "dev", tag)
        run("ip", "link", "set", tag, "up")
        for number, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            # What lies in it goes with it, its end of the pair of devices, too.
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "add", f"{tag}h{number}", "master", tag, "type", "veth", "peer", "eth0", "netns", name)
            run("ip", "link", "set", f"{tag}h{number}", "up")
            run("ip", "-n", name, "address", "add", f"{net}.{number + 2}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", device, "up")

    def words(self, number):
        """Before a command: the mount namespace stays the one of the bench."""
        return ["nsenter", f"--net=/var/run/netns/{self.names[number]}", "--"]


class Server:
    """A process that listens on a port."""

    def __init__(self, stack, words, url, **options):
        self.url = url
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True, **options)
        stack.callback(self.stop)
        wait_until(lambda: self.answers() or self.process.poll() is not None, 30, f"{words[0]} does not start")
        if self.process.poll() is not None:
            raise Trouble(f"{words[0]} ends at once")

    def answers(self):
        """No request: a cache would keep the answer."""
        address = urllib.parse.urlsplit(self.url)
        with socket.socket() as client:
            return client.connect_ex((address.hostname, address.port)) == 0

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def nginx(stack, place, url, text):
    """Runs nginx with `text` in its `http`."""
    place.mkdir()
    temporary = "".join(f"{kind}_temp_path {place}/t;" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    # The master's user is root, as is who may write here.
    (place / "nginx.conf").write_text(
        f"daemon off; user root; worker_processes 1; pid {place}/pid; error_log {place}/log;"
        "events { worker_connections 1024; }"
        f"http {{ {temporary} sendfile on; keepalive_requests 100000; {text} }}")
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return Server(stack, [program, "-p", place, "-c", place / "nginx.conf"], url)


class Fleet:
    """An origin that counts, and mounts of it."""

    def __init__(self, bench, stack, place, network):
        self.bench, self.stack, self.place, self.network, self.mounted = bench, stack, place, network, 0
        place.mkdir()
        self.root, self.log = place / "root", place / "sent"
        self.root.mkdir()
        self.origin = f"http://{network.address}:{random.randrange(20000, 30000)}/"
        self.start()

    def start(self):
        port = self.origin.rstrip("/").rpartition(":")[2]
        shutil.rmtree(self.place / "origin", ignore_errors=True)
        self.server = nginx(
            self.stack, self.place / "origin", self.origin,
            f"log_format sent '$body_bytes_sent $uri'; access_log {self.log} sent;"
            f"server {{ listen {port}; root {self.root}; autoindex on; }}")

    def sent(self, name):
        """Bytes of a file."""
        lines = [line.split(" ", 1) for line in self.log.read_text().splitlines()]
        return sum(int(count) for count, path in lines if path == f"/{name}")

    def mount(self, number, options, way=None):
        """On an empty cache. - Parameter number: of its network namespace; nil: that of the bench."""
        self.mounted += 1
        words = [] if number is None else self.network.words(number)

        class Elsewhere(ReelMount):
            def open(self):
                self.words = words
                super().open()

        place = self.place / f"mount-{self.mounted}"
        mount = Elsewhere(self.bench.program, way or self.origin, place, self.place / f"cache-{self.mounted}",
                          options=["--cache-size", "4G", *options])
        return self.stack.enter_context(contextlib.closing(mount))

    def film(self, name, size):
        """A file of random bytes; those of a size have the same."""
        whole = self.bench.work / f"random-{size}"
        if not whole.exists():
            write_random_file(whole, size)
        os.link(whole, self.root / name)
        return whole


def cache_of(fleet):
    """The recipe of nginx-cache.example, on this machine. - Returns: the URL."""
    kept, port = fleet.place / "kept", random.randrange(30000, 32000)
    kept.mkdir()
    text = (ROOT / "mount-helpers/nginx-cache.example").read_text()
    for old, new in [("/var/cache/nginx/reelfs", str(kept)), ("min_free=2g", ""), ("https://", "http://"),
                     ("media.example:443", fleet.origin.split("/")[2]), ("listen 8080", f"listen {port}")]:
        text = text.replace(old, new)
    url = f"http://{fleet.network.address}:{port}/"
    return nginx(fleet.stack, fleet.place / "cache", url, "access_log off; " + text).url


def bucket(fleet, kind):
    """A bucket of moto, or of `rclone serve s3`. - Returns: options."""
    programs = str(ROOT / ".build-python/bin") + ":" + os.environ["PATH"]
    program = shutil.which({"moto": "moto_server"}.get(kind, kind), path=programs)
    if not program:
        return None
    port, place = random.randrange(30000, 32000), fleet.place / "bucket"
    (place / "films").mkdir(parents=True)
    url = f"http://{fleet.network.address}:{port}/"
    words = {"moto": [program, "-H", "0.0.0.0", "-p", str(port)],
             "rclone": [program, "serve", "s3", place, "--addr", f":{port}", "--auth-key", ",".join(list(KEYS.values())[:2]),
                        "--config", "/dev/null"]}[kind]
    Server(fleet.stack, words, url, env={**os.environ, **KEYS})
    if kind == "moto":
        run("curl", "-sf", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u",
            ":".join(list(KEYS.values())[:2]), url + "films")
    return ["--tier", "s3://films/shared", "--endpoint", url]


def plays(mount, name, film):
    return subprocess.Popen(["cmp", mount.file(name), film])


def share(bench, fleet, design, options):
    """Films that eight mounts read, and one more when the origin has gone."""
    who = "reelfs"
    # All at the beginning: a shared cache keeps a listing for a moment.
    films = {how: fleet.film(f"{how.replace(' ', '-')}.bin", bench.size) for how in ("at once", "in a row")}
    for how, film in films.items():
        name = f"{how.replace(' ', '-')}.bin"
        mounts = [fleet.mount(number, options) for number in range(MOUNTS + 1)]
        # A bucket has neither listings nor versions: the one more has looked at the film before.
        *mounts, last = mounts
        if design != "via":
            last.run("head", "-c", "1000", last.file(name))
        before = fleet.sent(name)
        if how == "at once":
            failed = sum(player.wait() != 0 for player in [plays(mount, name, film) for mount in mounts])
        else:
            failed = sum(plays(mount, name, film).wait() != 0 for mount in mounts)
        if failed:
            raise Trouble(f"{failed} of {MOUNTS} mounts read other bytes")
        sent = (fleet.sent(name) - before) / bench.size
        print(f"shared, {design}, {how}: {sent:.3f} …", file=sys.stderr, flush=True)
        bench.figures.add(f"{design}, {how}", who, sent)
        for mount in mounts:
            mount.forget()
        if how == "at once":
            last.forget()
            continue
        if design != "via":
            time.sleep(5)
        fleet.server.stop()
        if design == "via":
            last.forget()
            last = fleet.mount(MOUNTS, options)
        bench.figures.add(f"{design}, after", who, 1 if plays(last, name, film).wait() == 0 else 0)
        last.forget()
        fleet.start()


def first_bytes(bench, fleet, cache, row, delay):
    """Pairs in turns, of a film each that the shared cache has."""
    who = "reelfs"
    names = [f"{row.replace(', ', '-')}-{number}.mkv" for number in range(PAIRS)]
    warm = fleet.mount(None, ["--via", cache])
    for name in names:
        warm.run("cmp", warm.file(name), fleet.root / name)
    warm.forget()
    with contextlib.ExitStack() as stack:
        way, origin = cache, fleet.origin
        if delay:
            links = [stack.enter_context(contextlib.closing(Link(types.SimpleNamespace(url=url), delay))) for url in (cache, origin)]
            way, origin = (link.url for link in links)
        for name in names:
            bench.figures.add(row, "curl", 1000 * curl(way + name, 0, 64 * KIB))
            mount = fleet.mount(None, ["--via", way], origin)
            bench.figures.add(row, who, 1000 * first(mount.file(name)))
            mount.forget()


def measure(bench):
    print("shared …", file=sys.stderr)
    if os.geteuid() != 0:
        return print("shared: needs root for network namespaces", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        os.environ.update(KEYS, no_proxy="*")
        network = Network(stack, MOUNTS + 1)
        for design in os.environ.get("DESIGNS", "via moto rclone").split():
            with contextlib.ExitStack() as inner:
                place = bench.work / design
                inner.callback(shutil.rmtree, place, ignore_errors=True)
                fleet = Fleet(bench, inner, place, network)
                if design != "via":
                    options = bucket(fleet, design)
                    if options is None:
                        print(f"shared: there is no {design}", file=sys.stderr)
                        continue
                    share(bench, fleet, design, options)
                    continue
                cache = cache_of(fleet)
                for row in ("first", "first-near"):
                    for number in range(PAIRS):
                        fleet.film(f"{row}-{number}.mkv", 4 * MIB)
                share(bench, fleet, design, ["--via", cache])
                first_bytes(bench, fleet, cache, "first", DELAY)
                first_bytes(bench, fleet, cache, "first, near", 0)
