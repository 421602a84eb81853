"""A media server's probes alone, and beside a player: all over one line, through one mount."""

import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request

from parts import run, sparse
from table import Row, Want

MBIT = 1_000_000 // 8
DELAY, LINE = 40, 40
# A film of 20 Mbit/s, as long as the scan.
RATE, SECONDS = 20 * MBIT, 60
FILMS, SCANNERS = 48, 8
# Of each kind, for the probes without a player.
PROBES = 12
# As Jellyfin asks.
PROBE = ["ffprobe", "-v", "error", "-analyzeduration", "200M", "-probesize", "1G", "-threads", "0",
         "-print_format", "json", "-show_streams", "-show_chapters", "-show_format"]
TITLE = f"library, over {DELAY} ms and a line of {LINE} Mbit/s in all"
ROWS = [
    Row("player", f"a film of 20 Mbit/s while {SCANNERS} ffprobes scan, of real time", 2, (Want(">=", 0.98),)),
    Row("stalls", "  its stalls", 0, (Want("<=", 1),)),
    Row("scan", "  the scan beside it, of its speed alone", 2, (Want(">=", 0.25),)),
    Row("one", f"ffprobe of {2 * PROBES} films over {DELAY} ms, one after another, s", 1, (Want("<=", 0.8, "URL"),)),
    Row("eight", f"  {SCANNERS} at once, s", 1, (Want("<=", 0.8, "URL"),)),
    *(row for kind in ("mp4", "mkv") for row in (
        Row(f"{kind} bytes", f"  of an {kind}, MB", 2),
        Row(f"{kind} requests", "    requests", 1, (Want("<=", 3),)))),
]


def make_films(root, count):
    """`count` films of 40 MB by the names of `name`; every second one has its index at the end."""
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25", "-f", "lavfi", "-i", "sine=r=48000",
        "-c:v", "mpeg4", "-q:v", "1", "-c:a", "aac", "-fs", "40M", "-t", "60", root / "film.mp4")
    run("ffmpeg", "-v", "error", "-i", root / "film.mp4", "-c", "copy", root / "film.mkv")
    (root / "scan").mkdir()
    for number in range(count):
        os.link(root / f"film{pathlib.Path(name(number)).suffix}", root / name(number))


def open_film(place):
    """A film to be read from its beginning: a file, or a URL on one connection."""
    return urllib.request.urlopen(place, timeout=300) if isinstance(place, str) else open(place, "rb", buffering=0)


class Player:
    """Reads a film at its rate and shows it late when bytes come late, as a player without a buffer of its own."""

    def __init__(self, film, rate=RATE, seconds=SECONDS):
        self.film, self.rate, self.seconds = film, rate, seconds
        # How often it was late, its start included; and by how many seconds at most once it played.
        self.stalls, self.longest = 0, 0.0
        self.thread = threading.Thread(target=self.play)
        self.is_over = threading.Event()

    def play(self):
        step = 128 << 10
        start = time.monotonic()
        late = 0.0
        with open_film(self.film) as file:
            for place in range(0, self.rate * self.seconds, step):
                # What is this slow shows it as well in that time.
                if time.monotonic() - start > 2 * self.seconds:
                    break
                due = start + late + place / self.rate
                time.sleep(max(0, due - time.monotonic()))
                file.read(step)
                behind = time.monotonic() - due
                if place:
                    self.longest = max(self.longest, behind)
                # A picture and more is missing.
                if behind > 0.2:
                    late += behind
                    self.stalls += 1
                played = (place + step) / self.rate
        self.of_real_time = played / (time.monotonic() - start)
        self.is_over.set()


def play(players):
    """All at once, to their ends."""
    for player in players:
        player.thread.start()
    for player in players:
        player.thread.join()


def name(number):
    return f"scan/{number:04}.{'mkv' if number % 2 else 'mp4'}"


def scan(place, is_over=lambda: False, films=range(FILMS), scanners=SCANNERS):
    """Probes films, some at a time. - Parameter place: of a name. - Returns: films a second."""
    names, lock, done = iter(films), threading.Lock(), []

    def work():
        while not is_over():
            with lock:
                number = next(names, None)
            if number is None:
                return
            subprocess.run([*PROBE, place(name(number))],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300, check=True)
            with lock:
                done.append(number)

    start = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(scanners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done) / (time.monotonic() - start)


def probe(bench, who, place):
    """Probes films that were never read, first of one kind after the other, then eight at once."""
    elapsed = 0
    for first, kind in enumerate(("mp4", "mkv")):
        before = bench.origin.sent()
        elapsed += PROBES / scan(place, films=range(first, 2 * PROBES, 2), scanners=1)
        # What was asked for and not waited for comes a moment later.
        time.sleep(1)
        requests, sent = (after - past for after, past in zip(bench.origin.sent(), before))
        bench.figures.add(f"{kind} bytes", who, sent / PROBES / 1e6)
        bench.figures.add(f"{kind} requests", who, requests / PROBES)
    bench.figures.add("one", who, elapsed)
    bench.figures.add("eight", who, 2 * PROBES / scan(place, films=range(2 * PROBES, 4 * PROBES)))


def measure(bench):
    print("library …", file=sys.stderr)
    root = bench.directory("library")
    make_films(root, FILMS)
    # What is played: bytes alone matter.
    sparse(root / "played.mkv", RATE * SECONDS)
    with bench.link(DELAY) as link:
        probe(bench, "URL", lambda name: f"{link.url}library/{name}")
        for who in ["reelfs", "rclone"]:
            with bench.mount("library/", link, who) as mount:
                # A media server has listed the folder before.
                os.listdir(mount.file("scan"))
                probe(bench, who, mount.file)
    for who in ["reelfs", "rclone"]:
        with bench.link(DELAY, 0, LINE) as link, bench.mount("library/", link, who) as mount:
            alone = scan(mount.file)
        with bench.link(DELAY, 0, LINE) as link, bench.mount("library/", link, who) as mount:
            player = Player(mount.file("played.mkv"))
            player.thread.start()
            beside = scan(mount.file, player.is_over.is_set)
            player.thread.join()
        bench.figures.add("player", who, player.of_real_time)
        bench.figures.add("stalls", who, player.stalls)
        bench.figures.add("scan", who, beside / alone)
