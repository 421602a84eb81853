"""systemd's automount and automount(8): mounted at the first look, let go when idle, healed after kill -9."""

from checks import FILMS, equal, expect, play
from machine import wait_until
from origin import FILM_SIZE

AUTOMOUNT = "srv-films.automount"
OPTIONS = "ro,nofail,_netdev,noauto,x-systemd.automount"


def unmounted(machine, sentence):
    wait_until(lambda: not machine.mounts(), sentence)


def first_look(machine):
    """x-systemd.automount: mounted at the first look, away when idle, back at the next, and nothing is fetched twice"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS},x-systemd.idle-timeout=1s")
    equal(machine.boot(), "running", "the machine")
    equal((machine.mounts(), machine.origin.asked), ({}, (0, 0)), "before anybody looks")
    for _ in range(3):
        play(machine)
        equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")
        unmounted(machine, "the idle mount is let go")
        wait_until(lambda: machine.show(AUTOMOUNT, "SubState") == "waiting", "the automount waits again")
    # Its neighbour's beginning is fetched ahead once the film is played through.
    fetched = machine.origin.asked[1]
    expect(FILM_SIZE <= fetched <= 2 * FILM_SIZE, f"{fetched} bytes were fetched")
    machine.origin.stop()
    play(machine)


def dead(machine):
    """x-systemd.automount and an origin that is away at the first look: an error, and a mount once it is there"""
    machine.origin.stop()
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS}")
    equal(machine.boot(), "running", "the machine")
    for _ in range(2):
        equal(machine.try_run("ls", FILMS).returncode, 2, "ls")
    machine.origin.start()
    play(machine)


def killed(machine):
    """kill -9 under x-systemd.automount: the next look mounts again"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS}")
    machine.boot()
    heals(machine, FILMS)
    # Not by unit: of a process that has gone journald may no longer learn whose it was.
    def count():
        return sum(level == 3 and "the daemon died" in text for level, text in machine.messages("-t", "reelfs"))

    wait_until(lambda: count() >= 3, lambda: f"three words of the watcher in the journal: {count()}")
    equal(count(), 3, "words of the watcher in the journal")


def units(machine):
    """A mount unit and an automount unit of one's own"""
    machine.write("/etc/systemd/system/srv-films.mount",
                  "[Unit]\nWants=network-online.target\nAfter=network-online.target\n"
                  f"[Mount]\nWhat={machine.origin.url()}\nWhere={FILMS}\nType=reelfs\nOptions=ro,_netdev\n")
    machine.write("/etc/systemd/system/srv-films.automount",
                  f"[Automount]\nWhere={FILMS}\nTimeoutIdleSec=1s\n[Install]\nWantedBy=remote-fs.target\n")
    machine.enable(AUTOMOUNT)
    equal(machine.boot(), "running", "the machine")
    play(machine)
    unmounted(machine, "the idle mount is let go")


def heals(machine, folder):
    for _ in range(3):
        play(machine, folder=folder)
        machine.run("kill", "-9", machine.daemon(folder))
        unmounted(machine, "the dead mount goes")
    play(machine, folder=folder)


def autofs(machine):
    """automount(8): mounted at the first look, let go when idle, kill -9, and a reboot without the origin"""
    source = machine.origin.url().replace(":", "\\:")
    machine.write("/etc/auto.master.d/reelfs.autofs", "/srv/media /etc/auto.media --timeout=2\n")
    machine.write("/etc/auto.media", f"films -fstype=reelfs,ro :{source}\n")
    equal(machine.boot(), "running", "the machine")
    equal(machine.mounts(), {}, "mounts before anybody looks")
    heals(machine, "/srv/media/films")
    unmounted(machine, "the idle mount is let go")
    machine.origin.stop()
    equal(machine.reboot(), "running", "the machine")
    play(machine, folder="/srv/media/films")


CASES = [first_look, dead, killed, units, autofs]
