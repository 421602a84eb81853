"""The templates reelfs@.service, of the system and of a user's manager; and what the journal gets."""

from checks import FILMS, UNIT, equal, expect, play
from machine import wait_until

SERVICE = "reelfs@films.service"
USER = "1234"


def configure(machine, folder="/etc/reelfs", mountpoint=FILMS, options=""):
    machine.write(f"{folder}/films.env", f"SOURCE={machine.origin.url()}\nMOUNTPOINT={mountpoint}\nOPTIONS='{options}'\n")
    (machine.root / mountpoint.lstrip("/")).mkdir(parents=True)


def life(machine):
    """reelfs@.service: started when the mount answers, says so in its status, and everybody sees the mount"""
    configure(machine, options=r"user_agent=one\, two")
    machine.enable(SERVICE)
    equal(machine.boot(), "running", "the machine")
    equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts at boot")
    for _ in range(3):
        equal(machine.show(SERVICE, "StatusText"), f"{machine.origin.url()} on {FILMS}", "the status")
        play(machine)
        machine.run("systemctl", "stop", SERVICE)
        equal((machine.mounts(), machine.show(SERVICE, "Result")), ({}, "success"), "after stop")
        machine.run("systemctl", "start", SERVICE)
        # No waiting: "started" means that it answers.
        equal(machine.run("ls", FILMS), "film.mkv\nother.mkv\n", "the listing right after start")
    machine.run("umount", FILMS)
    wait_until(lambda: machine.show(SERVICE, "ActiveState") == "inactive", "the service ends with its mount")
    equal(machine.show(SERVICE, "Result"), "success", "after umount")


def reload(machine):
    """reelfs@.service reloaded: files stay open, the new process is the service, and a stop ends the mount at once"""
    configure(machine)
    machine.boot()
    machine.run("systemctl", "start", SERVICE)
    machine.run("sh", "-c", f"exec 5< {FILMS}/film.mkv; for count in 0 1 2; do systemctl reload {SERVICE} || exit 1;"
                f" dd bs=4096 count=1 status=none <&5 | cmp -n 4096 -i 0:$((4096 * count)) - {FILMS}/film.mkv || exit 1;"
                " done")
    play(machine)
    equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")
    refused = machine.try_run("reelfs", "restart", FILMS)
    expect(refused.returncode == 32 and "systemctl reload" in refused.stderr, f"a restart by hand: {refused}")
    machine.run("kill", "-9", machine.show(SERVICE, "MainPID"))
    wait_until(lambda: (machine.show(SERVICE, "NRestarts"), machine.show(SERVICE, "ActiveState")) == ("1", "active"),
               "the service comes back")
    play(machine)
    machine.run("systemctl", "stop", SERVICE)
    equal((machine.mounts(), machine.show(SERVICE, "Result")), ({}, "success"), "after stop")


def elsewhere(machine):
    """A mount of fstab that a unit of one command restarts outlives that unit"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs ro,nofail,_netdev")
    machine.boot()
    daemon = machine.daemon(FILMS)
    machine.run("systemd-run", "--wait", "--collect", "reelfs", "restart", FILMS)
    expect(machine.daemon(FILMS) not in (None, daemon), "the daemon is the same")
    play(machine)
    equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")


def crash(machine):
    """reelfs@.service after kill -9: started again by itself, without a dead mount in its way"""
    configure(machine)
    machine.boot()
    machine.run("systemctl", "start", SERVICE)
    for count in range(1, 4):
        machine.run("kill", "-9", machine.show(SERVICE, "MainPID"))
        wait_until(lambda: (machine.show(SERVICE, "NRestarts"), machine.show(SERVICE, "ActiveState"))
                   == (str(count), "active"), "the service comes back")
        play(machine)
        equal(machine.mounts(), {FILMS: machine.origin.url()}, "mounts")


def failure(machine):
    """reelfs@.service that cannot mount: one sentence, tried again till the origin is there; wrong words are not"""
    configure(machine)
    machine.boot()
    machine.origin.stop()
    equal(machine.try_run("systemctl", "start", SERVICE).returncode, 1, "systemctl start")
    wait_until(lambda: machine.show(SERVICE, "SubState") == "auto-restart", "it is to be tried again")
    expect("nothing is remembered" in machine.show(SERVICE, "StatusText"), machine.show(SERVICE, "StatusText"))
    machine.origin.start()
    machine.wait_for(SERVICE, "active")
    play(machine)
    machine.run("systemctl", "stop", SERVICE)
    machine.write("/etc/reelfs/films.env", f"SOURCE={machine.origin.url()}\nMOUNTPOINT={FILMS}\nOPTIONS=cash_size=1\n")
    equal(machine.try_run("systemctl", "start", SERVICE).returncode, 1, "systemctl start")
    equal((machine.show(SERVICE, "ActiveState"), machine.show(SERVICE, "NRestarts")), ("failed", "0"), "wrong words")


def stopped_early(machine):
    """reelfs@.service stopped while the origin keeps it waiting: at once, and no failure"""
    configure(machine)
    machine.boot()
    machine.origin.be_silent()
    machine.run("systemctl", "start", "--no-block", SERVICE)
    wait_until(lambda: machine.show(SERVICE, "StatusText") == f"opening {machine.origin.url()}", "it asks its origin")
    machine.run("systemctl", "stop", SERVICE, seconds=10)
    equal((machine.mounts(), machine.show(SERVICE, "Result")), ({}, "success"), "after stop")


def patience(machine):
    """reelfs@.service with a timeout beyond systemd's own patience is not cut short"""
    configure(machine, options="timeout=20")
    machine.write("/etc/systemd/system/reelfs@films.service.d/patience.conf",
                  "[Service]\nTimeoutStartSec=2\nRestart=no\n")
    machine.boot()
    machine.origin.be_silent()
    equal(machine.try_run("systemctl", "start", SERVICE).returncode, 1, "systemctl start")
    equal(machine.show(SERVICE, "Result"), "exit-code", "why it ended")


def encrypted(machine):
    """reelfs@.service as encrypted.example has it: systemd decrypts the key, also after kill -9; without it, a sentence"""
    configure(machine, options="encrypt=credential:films,cache_dir=/var/cache/reelfs-films")
    machine.boot()
    # A machine without a TPM.
    machine.run("sh", "-c", "head -c 32 /dev/urandom"
                " | systemd-creds encrypt --with-key=host --name=films - /etc/reelfs/films.cred")
    drop_in = f"/etc/systemd/system/{SERVICE}.d"
    machine.run("mkdir", "-p", drop_in)
    machine.run("cp", "/usr/share/doc/reelfs/examples/encrypted.example", f"{drop_in}/encrypted.conf")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", SERVICE)
    play(machine)
    machine.run("systemctl", "reload", SERVICE)
    play(machine)
    machine.run("kill", "-9", machine.show(SERVICE, "MainPID"))
    wait_until(lambda: (machine.show(SERVICE, "NRestarts"), machine.show(SERVICE, "ActiveState")) == ("1", "active"),
               "the service comes back")
    play(machine)
    equal(machine.try_run("grep", "-rqa", "film.mkv", "/var/cache/reelfs-films").returncode, 1, "names in the cache")
    machine.run("systemctl", "stop", SERVICE)
    machine.run("rm", f"{drop_in}/encrypted.conf")
    machine.run("systemctl", "daemon-reload")
    equal(machine.try_run("systemctl", "start", SERVICE).returncode, 1, "systemctl start without the credential")
    expect("CREDENTIALS_DIRECTORY" in machine.show(SERVICE, "StatusText"), machine.show(SERVICE, "StatusText"))


def of_user(machine):
    """The template of a user's manager: started, played, stopped, and back after kill -9, through fusermount3"""
    machine.run_on_tree("useradd", "--uid", USER, "--create-home", "me")
    configure(machine, "/home/me/.config/reelfs", "/home/me/Films")
    machine.run_on_tree("chown", "-R", f"{USER}:{USER}", "/home/me")
    machine.write("/var/lib/systemd/linger/me", "")
    machine.boot()
    machine.wait_for(f"user@{USER}.service", "active")
    machine.run("chmod", "666", "/dev/fuse")

    def manager(*words):
        return machine.run("systemctl", "--user", *words, user=USER)

    def listing():
        return machine.try_run("ls", "/home/me/Films", user=USER).stdout

    manager("enable", "--now", "--quiet", SERVICE)
    equal(listing(), "film.mkv\nother.mkv\n", "the listing")
    machine.run("cmp", "/home/me/Films/film.mkv", "/home/me/Films/film.mkv", user=USER)
    machine.run("kill", "-9", manager("show", "--value", "-p", "MainPID", SERVICE).strip())
    wait_until(lambda: manager("show", "--value", "-p", "NRestarts", SERVICE).strip() == "1"
               and listing() == "film.mkv\nother.mkv\n", "the service comes back")
    manager("stop", SERVICE)
    equal(machine.mounts(), {}, "mounts")


def levels(machine):
    """The journal: levels and the right unit for mount units and services, without litter in the text"""
    machine.fstab(f"{machine.origin.url()} {FILMS} reelfs ro,noauto,log_level=debug")
    configure(machine, mountpoint="/srv/second", options="log_level=debug,cache_dir=/var/cache/second")
    machine.boot()
    machine.run("mount", "-a")
    machine.run("systemctl", "start", UNIT, SERVICE)
    machine.origin.stop()
    for folder in (FILMS, "/srv/second"):
        equal(machine.try_run("cat", f"{folder}/film.mkv").returncode, 1, "cat")
    machine.run("systemctl", "stop", UNIT, SERVICE)
    for unit in (UNIT, SERVICE):
        def count(level, words):
            return sum((found, text.startswith(words)) == (level, True) for found, text in machine.messages("-u", unit))
        wait_until(lambda: count(5, "unmounted on="), f"the last word is in the journal of {unit}")
        equal((count(5, "mounted on="), count(5, "unmounted on=")), (1, 1), f"notices of {unit}")
        found = (count(5, f"{machine.origin.url().rstrip('/')} is away"), count(6, machine.origin.url("film.mkv")))
        equal(found, (1, 1), f"what became of the origin and of a read, in the journal of {unit}")
        litter = [text for _, text in machine.messages("-u", unit) if text.startswith(("<", "reelfs: "))]
        equal(litter, [], f"litter of {unit}")


CASES = [life, reload, elsewhere, crash, failure, stopped_early, patience, encrypted, of_user, levels]
