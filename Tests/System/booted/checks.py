"""What the cases look at."""

from machine import Trouble
from origin import film

FILMS = "/srv/films"
UNIT = "srv-films.mount"


def expect(condition, sentence):
    if not condition:
        raise Trouble(sentence)


def equal(found, wanted, what):
    if found != wanted:
        raise Trouble(f"{what}: {found!r} instead of {wanted!r}")


def play(machine, name="film.mkv", folder=FILMS):
    """Every byte, through the machine's own eyes, beside the bytes that were made."""
    machine.run("cp", f"{folder}/{name}", "/var/tmp/played")
    equal((machine.root / "var/tmp/played").read_bytes() == film(name), True, f"{name} has the origin's bytes")


def said(machine, unit=UNIT):
    """What reelfs itself said of a unit: (level, text)."""
    return [(level, text) for level, text in machine.messages("-u", unit) if text.startswith("reelfs: ")]
