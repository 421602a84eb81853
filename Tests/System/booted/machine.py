"""A machine of the tests' own: a small Debian, booted by systemd-nspawn, that goes away with all it has done."""

import json
import os
import pathlib
import signal
import subprocess
import time

LIMIT = 60


class Trouble(Exception):
    """A sentence: what is not as it should be."""


def wait_until(condition, sentence, seconds=LIMIT):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Trouble(f"not within {seconds} s: {sentence() if callable(sentence) else sentence}")
        time.sleep(0.02)
    return value


class Machine:
    """What it writes lies in a layer above the tree, which stays as it was from machine to machine.

    Used by `with`. Nobody registers it anywhere and its network is the driver's own, so that the driver's servers are
    its loopback.
    """

    # systemd-nspawn's own way to say "reboot" where somebody else is to start the machine again.
    REBOOT = 133

    def __init__(self, tree, work, origin):
        self.tree, self.work, self.origin = tree, work, origin
        self.root = work / "root"
        self.process = self.init = None

    def __enter__(self):
        layer = self.work / "layer"
        for path in (self.root, layer / "upper", layer / "work", self.work / "cache"):
            path.mkdir(parents=True)
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={self.tree},upperdir={layer}/upper,"
                        f"workdir={layer}/work", "overlay", self.root], check=True)
        return self

    def __exit__(self, *_):
        try:
            if self.process and self.process.poll() is None:
                # Where its first process is not known, what else there is of it is the driver's to end.
                self.kill(self.init or self.process.pid)
                self.process.wait(LIMIT)
        finally:
            subprocess.run(["umount", "--lazy", self.root], check=True)

    # Files, also while it is off.

    def write(self, path, text, mode=0o644):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def fstab(self, *lines):
        self.write("/etc/fstab", "".join(f"{line} 0 0\n" for line in lines))

    def enable(self, unit):
        subprocess.run(["systemctl", "--quiet", "--root", self.root, "enable", unit], check=True)

    def run_on_tree(self, *words):
        subprocess.run(["chroot", self.root, *words], check=True)

    # On and off.

    def boot(self, wait=True):
        self.init = None
        log = open(self.work / "console", "ab")
        self.process = subprocess.Popen(
            # A machine has the devices of its kernel; automount units need the second. The cache lies on the driver's
            # disk: a real filesystem, not a layer.
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--console=read-only",
             "--bind=/dev/fuse", "--bind=/dev/autofs", f"--bind={self.work}/cache:/var/cache/reelfs",
             "--machine=reelfs-test", "--directory", self.root],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.init = wait_until(self.find_init, "the machine starts")
        # Its own socket: before that nobody answers.
        wait_until(lambda: self.try_run("test", "-S", "/run/systemd/private").returncode == 0, "systemd runs")
        return self.wait_for_boot() if wait else None

    def wait_for_boot(self):
        """`running`, or `degraded` where a unit has failed."""
        return self.try_run("systemctl", "is-system-running", "--wait").stdout.strip()

    def find_init(self):
        if self.process.poll() is not None:
            raise Trouble(f"systemd-nspawn ends at once: {(self.work / 'console').read_text()[-500:]}")
        for path in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
            except OSError:
                continue
            is_first = fields["NSpid"].split()[1:] == ["1"]
            if is_first and fields["PPid"].strip() == str(self.process.pid) and fields["Name"].strip() == "systemd":
                return int(path.parent.name)
        return None

    def reboot(self, wait=True):
        self.try_run("systemctl", "reboot")
        if (status := self.process.wait(LIMIT * 2)) != self.REBOOT:
            raise Trouble(f"no reboot: systemd-nspawn ended with {status}")
        return self.boot(wait)

    def cut_power(self):
        """Every process at once; what the disk had not got yet is in the driver's memory and survives."""
        self.kill(self.init)
        self.process.wait(LIMIT)

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    # Inside.

    def try_run(self, *words, seconds=LIMIT, user=None):
        inside = ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-p", "-r", "-w", "--"]
        if user:
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        if user:
            variables |= {"XDG_RUNTIME_DIR": f"/run/user/{user}"}
        return subprocess.run(inside + list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=seconds, env=variables)

    def run(self, *words, **how):
        done = self.try_run(*words, **how)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise Trouble(f"{' '.join(words)} ended with {done.returncode}: {said}")
        return done.stdout

    def show(self, unit, name):
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def wait_for(self, unit, state):
        wait_until(lambda: self.show(unit, "ActiveState") == state,
                   lambda: f"{unit} is {self.show(unit, 'ActiveState')}, not {state}")

    def mounts(self):
        """Directory → source of every mount of reelfs."""
        lines = self.run("cat", "/proc/mounts").splitlines()
        return {words[1]: words[0] for words in map(str.split, lines) if words[2] == "fuse.reelfs"}

    def daemon(self, directory):
        """The number that the machine itself gives to the daemon of a mount."""
        for line in self.run("ps", "-e", "-o", "pid=,args=").splitlines():
            pid, *words = line.split()
            if words[:1] == ["reelfs"] and directory in words and words[1] in ("daemon", "mount"):
                return pid
        raise Trouble(f"no daemon of {directory}")

    def messages(self, *choice):
        """What the journal has: (level, text) of each message."""
        lines = self.run("journalctl", "--boot", "--output=json", "--quiet", *choice).splitlines()
        return [(int(entry["PRIORITY"]), entry["MESSAGE"]) for entry in map(json.loads, lines)]
