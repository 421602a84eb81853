"""fstab at boot: `_netdev`, a dead origin, a silent one, reboots and power cuts."""

from checks import FILMS, UNIT, equal, expect, play, said
from machine import wait_until
from origin import FILM_SIZE, film

OPTIONS = "ro,nofail,_netdev"


def at_boot(machine):
    """A line with _netdev is mounted at boot, after the network, and before who needs it starts"""
    # The cache is a disk of its own here.
    cache = "/var/cache/reelfs"
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS},x-systemd.requires-mounts-for={cache}")
    machine.write("/etc/systemd/system/player.service",
                  f"[Unit]\nRequiresMountsFor={FILMS}\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
                  f"ExecStart=cp {FILMS}/film.mkv /var/tmp/played\n[Install]\nWantedBy=multi-user.target\n")
    machine.enable("player.service")
    equal(machine.boot(), "running", "the machine")
    equal(machine.show("player.service", "ActiveState"), "active", "who needs the mount")
    expect((machine.root / "var/tmp/played").read_bytes() == film("film.mkv"), "it has got other bytes")
    equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")
    for order, wanted in (("After", "network-online.target"), ("Wants", "network-online.target"),
                          ("After", "remote-fs-pre.target"), ("WantedBy", "remote-fs.target"),
                          ("After", "var-cache-reelfs.mount")):
        expect(wanted in machine.show(UNIT, order).split(), f"{order}={wanted} is missing")
    machine.run("mount", "-a")
    found = machine.run("findmnt", "--noheadings", "--types", "fuse.reelfs").splitlines()
    equal(len(found), 1, "mounts after mount -a")
    machine.run("systemctl", "restart", UNIT)
    play(machine)
    machine.run("systemctl", "stop", UNIT)
    equal(machine.mounts(), {}, "mounts after stop")


def dead(machine):
    """A dead origin of which nothing is remembered: the boot goes on, the unit has failed with one sentence"""
    machine.origin.stop()
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS}")
    equal(machine.boot(), "degraded", "the machine")
    equal(machine.show("multi-user.target", "ActiveState"), "active", "multi-user.target")
    equal(machine.show(UNIT, "ActiveState"), "failed", UNIT)
    sentences = said(machine)
    expect(len(sentences) == 1 and sentences[0][0] == 3 and "nothing is remembered" in sentences[0][1], f"{sentences}")
    machine.origin.start()
    machine.run("systemctl", "start", UNIT)
    play(machine)


def silent(machine):
    """An origin that takes connections and never answers: the boot does not wait for it"""
    machine.origin.be_silent()
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS},timeout=10")
    machine.boot(wait=False)
    machine.wait_for("multi-user.target", "active")
    equal(machine.show(UNIT, "ActiveState"), "activating", UNIT)
    machine.wait_for(UNIT, "failed")
    sentences = said(machine)
    expect(len(sentences) == 1 and sentences[0][0] == 3, f"{sentences}")


def remembered(machine):
    """A reboot without the origin: mounted at boot, what is cached plays, what is not fails until the origin is back"""
    # Of the other film nothing is to be fetched ahead.
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS},prebuffer=0")
    machine.boot()
    play(machine)
    machine.origin.stop()
    for _ in range(2):
        equal(machine.reboot(), "running", "the machine")
        equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")
        equal(machine.run("ls", FILMS), "film.mkv\nother.mkv\n", "the listing")
        play(machine)
        end = machine.try_run("cat", f"{FILMS}/other.mkv")
        expect(end.returncode == 1, "what is not cached plays without its origin")
    machine.origin.start()
    wait_until(lambda: machine.try_run("cat", f"{FILMS}/other.mkv").returncode == 0, "the origin is noticed")
    play(machine, "other.mkv")
    expect(machine.origin.asked[1] <= FILM_SIZE, f"{machine.origin.asked} asked: more than the film that was missing")


def busy(machine):
    """A reboot while a film is read does not wait for its reader, and keeps what was fetched"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS}")
    machine.write("/etc/systemd/system/reader.service",
                  # Not ordered after the mount: it still reads when that is unmounted.
                  "[Unit]\nDefaultDependencies=no\n[Service]\nKillMode=none\n"
                  f"ExecStart=sh -c 'exec < {FILMS}/film.mkv; cat > /dev/null; echo read; exec sleep 600'\n")
    machine.boot()
    machine.run("systemctl", "start", "reader.service")
    wait_until(lambda: (6, "read") in machine.messages("-u", "reader.service"), "the film is read")
    machine.origin.stop()
    equal(machine.reboot(), "running", "the machine")
    play(machine)


def power(machine):
    """A power cut: mounted again at boot without the origin, and what was written plays"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs {OPTIONS}")
    machine.boot()
    play(machine)
    machine.run("umount", FILMS)
    machine.run("systemctl", "start", UNIT)
    machine.origin.stop()
    machine.cut_power()
    equal(machine.boot(), "running", "the machine")
    play(machine)


CASES = [at_boot, dead, silent, remembered, busy, power]
