"""driver.py TREE [NAME…]  boots machines and tries reelfs in them; it is installed in TREE, which stays as it is.

NAME: only the cases whose names contain it. Root, in mount and network namespaces of its own. The last line counts.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import automount
import boot
import service
from machine import Machine, Trouble, wait_until
from origin import Origin

CASES = [case for module in (automount, boot, service) for case in module.CASES]


class Groups:
    """Control groups below which the machine's systemd rules: it must not meet another machine's in the host's root."""

    def __init__(self):
        self.made = []
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, path = line.split(":", 2)
            if kind in ("", "name=systemd") and (top := self.mounted(kind)):
                group = top / path.lstrip("/") / f"reelfs-test-{os.getpid()}"
                group.mkdir()
                (group / "cgroup.procs").write_text(str(os.getpid()))
                self.made.append((group, group.parent))

    @staticmethod
    def mounted(kind):
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            words = line.split()
            if words[words.index("-") + 1] == ("cgroup" if kind else "cgroup2") and kind in words[-1]:
                return pathlib.Path(words[4])
        return None

    def others(self):
        """Every process of a machine, however far its boot has come: only the driver is beside them."""
        found = set()
        for file in [file for group, _ in self.made for file in group.rglob("cgroup.procs")]:
            try:
                found.update(map(int, file.read_text().split()))
            except OSError:
                # Gone with its last process, or just going.
                continue
        return found - {os.getpid()}

    def clear(self):
        def is_clear():
            for pid in (left := self.others()):
                Machine.kill(pid)
            return not left

        wait_until(is_clear, lambda: f"processes of a machine end: {self.others()}")

    def remove(self):
        for group, parent in self.made:
            (parent / "cgroup.procs").write_text(str(os.getpid()))
            # The last process is not listed any more while it still goes.
            wait_until(lambda: self.is_removed(group), f"{group} can be removed")

    @staticmethod
    def is_removed(group):
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
        except OSError:
            return False
        return True


def attempt(case, tree, work):
    """None, or why it failed."""
    origin = Origin("film.mkv", "other.mkv")
    machine = Machine(tree, work, origin)
    try:
        origin.start()
        with machine:
            try:
                case(machine)
            except Exception:
                if machine.init and machine.process.poll() is None:
                    print(machine.try_run("journalctl", "--boot", "--no-pager", "--lines=60").stdout)
                raise
        return None
    except (Trouble, subprocess.TimeoutExpired) as trouble:
        frames = traceback.extract_tb(trouble.__traceback__)
        ours = ("machine.py", "checks.py", "driver.py", "subprocess.py")
        mine = [frame for frame in frames if not frame.filename.endswith(ours)]
        return f"{trouble} ({pathlib.Path(mine[-1].filename).name}:{mine[-1].lineno})" if mine else str(trouble)
    except Exception:
        return traceback.format_exc()
    finally:
        origin.stop()


def end(*_):
    """Whoever ends the driver ends its machine; a second signal does not disturb that."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(143)


def main(tree, names):
    chosen = [case for case in CASES if not names or any(name in case.__name__ for name in names)]
    groups, failed = Groups(), 0
    try:
        for case in chosen:
            start = time.monotonic()
            work = pathlib.Path(tempfile.mkdtemp(prefix="reelfs-system-", dir="/var/tmp"))
            try:
                trouble = attempt(case, tree, work)
            finally:
                groups.clear()
                shutil.rmtree(work, ignore_errors=True)
            failed += trouble is not None
            seconds = time.monotonic() - start
            print(f"{'FAILED' if trouble else 'passed'}  {case.__doc__}  ({seconds:.0f} s)", flush=True)
            if trouble:
                print(f"        {trouble}", flush=True)
    finally:
        groups.remove()
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
