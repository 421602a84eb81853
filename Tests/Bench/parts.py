"""What the benches run: an origin, a link to it, mounts, and the figures of a process. All by pid, all below one directory."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.request


# Another user than root, for mounts through fusermount3 and without passthrough.
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--reset-env", "--"]


class Trouble(Exception):
    """A sentence: why there is no figure."""


def run(*words, seconds=600):
    """The wall-clock seconds of a command that must succeed."""
    start = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=seconds)
    elapsed = time.monotonic() - start
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Trouble(f"{pathlib.Path(words[0]).name} ended with {done.returncode}: {last[0]}")
    return elapsed


def sparse(path, size):
    """A file of zeros that takes no space."""
    with open(path, "wb") as file:
        file.truncate(size)


def wait_until(condition, seconds, sentence):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Trouble(sentence)
        time.sleep(0.02)


def drop_page_cache(*trees):
    """Written pages first: dirty ones stay. Without root, file by file."""
    os.sync()
    if os.geteuid() == 0:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return
    for tree in trees:
        for path in [tree] if tree.is_file() else [path for path in tree.rglob("*") if path.is_file()]:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class Origin:
    """One nginx process on loopback that counts what it sends."""

    def __init__(self, root, work):
        self.log = work / "access.log"
        self.log.write_text("")
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if not nginx:
            raise Trouble("there is no nginx")
        for _ in range(20):
            port = random.randrange(20000, 32000)
            self.url = f"http://127.0.0.1:{port}/"
            self.page = f"{self.url}.bench/{work.name}"
            temporary = "".join(f"{kind}_temp_path {work}/nginx;" for kind in
                                ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
            (work / "nginx.conf").write_text(
                f"daemon off; master_process off; pid {work}/nginx.pid; error_log {work}/nginx.log;"
                "events { worker_connections 256; }"
                f"http {{ {temporary} log_format sent '$body_bytes_sent'; access_log {self.log} sent; sendfile on;"
                # A cold read of 1 GiB must not meet nginx's end of a kept connection after 1000 requests.
                f"keepalive_requests 100000; server {{ listen 127.0.0.1:{port}; root {root}; autoindex on;"
                f"location = /.bench/{work.name} {{ stub_status; access_log off; }} }} }}")
            self.process = subprocess.Popen(
                [nginx, "-p", work, "-c", work / "nginx.conf"], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                wait_until(lambda: self.writing() is not None or self.process.poll() is not None, 5, "")
                if self.process.poll() is None:
                    return
            except Trouble:
                pass
            self.close()
        raise Trouble("nginx does not start")

    def writing(self):
        try:
            with urllib.request.urlopen(self.page, timeout=2) as answer:
                return int(re.search(rb"Writing: (\d+)", answer.read())[1])
        except (OSError, TypeError):
            return None

    def sent(self):
        """Requests and bytes of bodies so far; a request counts when it has ended."""
        wait_until(lambda: self.writing() == 1, 30, "a request to the origin does not end")
        sizes = [int(line) for line in self.log.read_text().split()]
        return len(sizes), sum(sizes)

    def close(self):
        self.process.terminate()
        self.process.wait(10)


class Link:
    """A slow way to an origin: link.py, which is told a round trip in ms, and Mbit/s of a connection and of all (0: no
    cap)."""

    def __init__(self, origin, delay, rate=0, all_rate=0):
        port = origin.url.rstrip("/").rpartition(":")[2]
        self.process = subprocess.Popen(
            [sys.executable, "-B", pathlib.Path(__file__).with_name("link.py"), port, str(delay), str(rate),
             str(all_rate)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/"

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Mount:
    """A mounted directory and the daemon behind it; of root or whoever runs this, or of `nobody`."""

    def __init__(self, directory, cache, is_nobody=False):
        self.directory, self.cache = directory, cache
        self.words = AS_NOBODY if is_nobody else []
        for place in (directory, cache):
            place.mkdir(exist_ok=place is directory)
            if is_nobody:
                os.chown(place, NOBODY, NOBODY)
        try:
            self.open()
        except BaseException:
            self.close()
            raise

    def run(self, *words, seconds=600):
        """As whoever may read the mount."""
        return run(*self.words, *words, seconds=seconds)

    def file(self, name):
        return self.directory / name

    def serve(self, name, words, **streams):
        """Starts what serves the mount as long as it runs; returns once it is mounted."""
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        start_new_session=True, **streams)
        self.pid = self.process.pid
        wait_until(lambda: self.is_mounted() or self.process.poll() is not None, 15, f"{name} does not mount")
        if self.process.poll() is not None:
            raise Trouble(f"{name} ends at once")

    def is_mounted(self):
        return f" {self.directory} " in pathlib.Path("/proc/mounts").read_text()

    def memory(self, field="VmRSS"):
        """MiB that are resident now."""
        return int(re.search(rf"{field}:\s+(\d+)", pathlib.Path(f"/proc/{self.pid}/status").read_text())[1]) / 1024

    def peak_memory(self):
        """MiB: the most that was ever resident."""
        return self.memory("VmHWM")

    def cpu_seconds(self):
        # Behind the name in parentheses, which may hold anything: fields 14 and 15 of proc(5) are the times.
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget(self):
        self.close()
        shutil.rmtree(self.cache)


class ReelMount(Mount):
    def __init__(self, program, url, directory, cache, is_nobody=False, options=(), environment=()):
        self.program, self.url, self.options, self.environment = program, url, options, environment
        super().__init__(directory, cache, is_nobody)

    def open(self):
        self.run("env", *self.environment, self.program, "mount", self.url, self.directory, "--cache-dir", self.cache,
                 *self.options, seconds=30)
        status = subprocess.run([*self.words, self.program, "status", self.directory, "--json"],
                                capture_output=True, text=True)
        found = re.search(r'"pid":(\d+)', status.stdout)
        if not found:
            raise Trouble("reelfs status does not tell the daemon")
        self.pid = int(found[1])

    def close(self):
        if self.is_mounted():
            try:
                self.run(self.program, "umount", self.directory, seconds=30)
            except (Trouble, subprocess.TimeoutExpired):
                run("umount", "-l", self.directory)
                raise


class RcloneMount(Mount):
    def __init__(self, url, directory, cache):
        self.url = url
        super().__init__(directory, cache)

    def open(self):
        self.serve("rclone mount", ["rclone", "mount", ":http:", self.directory, "--http-url", self.url,
                                    "--vfs-cache-mode", "full", "--cache-dir", self.cache, "--read-only",
                                    "--config", "/dev/null"], stderr=subprocess.DEVNULL)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if self.is_mounted():
            run("umount", "-l", self.directory)
