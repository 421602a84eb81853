"""What the benches' programs have in common: their one argument, a directory of their own, and an end that leaves nothing."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from parts import Trouble


def _enter_namespace():
    """Root's mounts are nobody else's business: the program starts again in a mount namespace of its own."""
    if os.geteuid() == 0 and not os.environ.get("REELFS_BENCH_NAMESPACE"):
        os.environ["REELFS_BENCH_NAMESPACE"] = "yes"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv])


def _end(work):
    def mounts():
        return [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines() if f" {work}/" in line]

    # The innermost first.
    for place in reversed(mounts()):
        subprocess.run(["umount", "-l", place] if os.geteuid() == 0 else ["fusermount3", "-uz", place])
    # A mount that would not go must not be emptied through.
    if not mounts():
        shutil.rmtree(work, ignore_errors=True)


def _undisturbed():
    """A second Ctrl-C is no reason to leave a mount behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def session(name, body):
    """Runs `body(program, words, work, stack)`; what it gives the stack ends in reverse order, whatever happens.

    Exit status 1 for a `Trouble`, never for slowness.
    """
    if len(sys.argv) < 2:
        sys.exit(f"usage: {name}.py PROGRAM [WORD…]")
    _enter_namespace()
    program = pathlib.Path(sys.argv[1]).resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with contextlib.ExitStack() as stack:
            parent = os.environ.get("BENCH_DIR", "/var/tmp")
            work = pathlib.Path(tempfile.mkdtemp(prefix=f"reelfs-{name}.", dir=parent)).resolve()
            stack.callback(_end, work)
            try:
                body(program, sys.argv[2:], work, stack)
            finally:
                stack.callback(_undisturbed)
    except (Trouble, OSError, subprocess.SubprocessError) as trouble:
        sys.exit(f"{name}: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
