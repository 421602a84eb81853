"""mpv over a link of 40 ms and 100 Mbit/s a connection: what the mount gives it, beside the URL itself."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time

from parts import Trouble, run, wait_until
from table import Row, Want

DELAY, RATE = 40, 100
TITLE = f"players, over {DELAY} ms and {RATE} Mbit/s a connection"
# By the suffix of the name; the last one is an mkv whose name tells nothing.
KINDS = {"mp4": "mp4, moov at its end", "mkv": "mkv, cues at its end", "part": "mkv, by another name"}
ROWS = [row for kind, text in KINDS.items() for row in (
    Row(f"{kind}, first frame", f"{text}: first frame, ms", 0, (Want("<=", 1, "mpv"),)),
    Row(f"{kind}, jump", "  jump to 50 %, ms", 0, (Want("<=", 0.7, "mpv"),)),
    Row(f"{kind}, jump again", "  and at once to 75 %, ms", 0, (Want("<=", 1, "mpv"),)),
    Row(f"{kind}, process", "  mpv from its start to its end, one frame, ms", 0, (Want("<=", 0.95, "mpv"),)),
    Row(f"{kind}, process at 50", "  the same of the frame at 50 %, ms", 0, (Want("<=", 0.8, "mpv"),)))]
# Without windows and sound.
MPV = ["mpv", "--no-config", "--vo=null", "--ao=null", "--ytdl=no", "--load-scripts=no"]
# What such films usually have: 720p at 8 Mbit/s, a key frame every two seconds, and sound.
INPUTS = ["-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25", "-f", "lavfi", "-i", "sine=r=48000"]
CODECS = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "50",
          "-b:v", "8M", "-minrate", "8M", "-maxrate", "8M", "-bufsize", "8M", "-c:a", "aac", "-b:a", "192k"]
# Longer than what mpv reads ahead by itself (150 MiB), so that a jump leaves it.
LENGTH = "400M"


class Player:
    """An mpv without windows that is told what to do and tells when a picture is there."""

    def __init__(self, work):
        self.path = work / "mpv.socket"
        self.process = subprocess.Popen(
            [*MPV, "--idle=yes", f"--input-ipc-server={self.path}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        try:
            wait_until(self.is_connected, 20, "mpv does not start")
        except BaseException:
            self.close()
            raise
        self.lines = self.socket.makefile("rb")

    def is_connected(self):
        with contextlib.suppress(OSError):
            self.socket.connect(str(self.path))
            return True
        return False

    def picture_after(self, *command):
        """Seconds until the first frame that the command leads to."""
        start = time.monotonic()
        self.socket.sendall(json.dumps({"command": command}).encode() + b"\n")
        for line in self.lines:
            message = json.loads(line)
            if message.get("event") == "playback-restart":
                return time.monotonic() - start
            if message.get("event") == "end-file" and message.get("reason") == "error":
                raise Trouble(f"mpv: {message.get('file_error', 'no message')}")
        raise Trouble("mpv ends")

    def close(self):
        self.process.kill()
        self.process.wait(10)
        self.socket.close()
        self.path.unlink(missing_ok=True)


def make_films(directory):
    short = directory / "short.mp4"
    run("ffmpeg", "-v", "error", *INPUTS, *CODECS, "-t", "30", short)
    for kind in ("mp4", "mkv"):
        run("ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", short, "-c", "copy", "-fs", LENGTH,
            directory / f"film.{kind}")
    os.link(directory / "film.mkv", directory / "film.part")
    short.unlink()


def watch(bench, kind, who, film):
    player = Player(bench.work)
    try:
        bench.figures.add(f"{kind}, first frame", who, 1000 * player.picture_after("loadfile", str(film)))
        # Somebody looks for a second, and then goes on elsewhere.
        time.sleep(1)
        for row, percent in [("jump", 50), ("jump again", 75)]:
            seconds = player.picture_after("seek", str(percent), "absolute-percent")
            bench.figures.add(f"{kind}, {row}", who, 1000 * seconds)
    finally:
        player.close()


def look(bench, kind, who, film, row="process", words=()):
    """The whole process, from the command to its end."""
    start = time.monotonic()
    run(*MPV, "--frames=1", "--no-terminal", *words, film)
    bench.figures.add(f"{kind}, {row}", who, 1000 * (time.monotonic() - start))


def look_at_middle(bench, kind, who, film):
    look(bench, kind, who, film, "process at 50", ["--start=50%"])


def measure(bench):
    if not shutil.which("mpv") or not shutil.which("ffmpeg"):
        print("players: left out, as there is no mpv or no ffmpeg", file=sys.stderr)
        return
    print("players …", file=sys.stderr)
    make_films(bench.directory("players"))
    with bench.link(DELAY, RATE) as link:
        for number in range(bench.many_rounds):
            for kind in KINDS:
                name = f"film.{kind}"
                for measured in (watch, look, look_at_middle):
                    with bench.mount("players/", link) as mount:
                        sides = [("mpv", link.url + "players/" + name), (mount.column, mount.file(name))]
                        for who, film in sides if number % 2 else reversed(sides):
                            measured(bench, kind, who, film)
    shutil.rmtree(bench.root / "players")
