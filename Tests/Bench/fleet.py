"""fleet.py [NUMBER…]  what the origin sends and a reader waits for, with 1, 10, 100, 1,000 and 10,000 mounts.

A simulation, of three designs: each mount asks the origin (alone), through one shared HTTP cache (via), beside one
bucket (tier). No clock, no network: the same every time. What it assumes stands in `World`, and each of it can be
changed by a variable of that name: `ORIGIN_MBIT=10000 python3 fleet.py 100 1000`.
What the tables mean: Sources/reelfs/Documentation.docc/Fleet.md.
"""

import bisect
import collections
import heapq
import os
import random
import sys

DESIGNS = ["alone", "via", "tier"]


class World:
    """Rates in Mbit/s, times in seconds, lengths in MiB unless they say otherwise."""

    FILM_MBIT = 8  # what a film needs as it plays
    FILM_MINUTES = 120
    EXTENT = 32  # what is fetched, and kept by a shared cache, at a time
    SLICE = 1  # what is written to the bucket at a time
    PATIENCE = 3  # for a slice that another mount writes; then the origin is asked
    LINE_MBIT = 100  # of each mount, downwards
    UP_MBIT = 20  # of each mount, upwards: what it writes to the bucket
    ORIGIN_MBIT = 1000
    ORIGIN_DELAY = 0.04
    CACHE_MBIT = 10000
    CACHE_DELAY = 0.002
    CACHE_GIB = 2000
    BUCKET_MBIT = 100000
    BUCKET_DELAY = 0.06
    FILMS = 2000  # of the library; the second is watched half as often as the first, the third a third as often
    REFRESH = 300  # between two looks at a listing (`--refresh`)
    CHANGE = 3600  # between two changes of it
    LISTING_KIB = 100

    def __init__(self, environment):
        for name, value in vars(World).items():
            if name.isupper() and name in environment:
                setattr(self, name, float(environment[name]))
        self.extent_bits = self.EXTENT * 8 * 1.048576  # Mbit
        self.seconds = self.extent_bits / self.FILM_MBIT  # of film in an extent
        self.extents = max(1, round(self.FILM_MINUTES * 60 / self.seconds))


class Server:
    """Answers one after the other, at its rate."""

    def __init__(self, rate, delay):
        self.rate, self.delay, self.free, self.sent = rate, delay, 0.0, 0.0

    def ask(self, now, bits):
        """When the first and the last byte of the answer are there."""
        start = max(now, self.free)
        self.free = start + bits / self.rate
        self.sent += bits
        return start + self.delay, self.free + self.delay


class Alone:
    def __init__(self, world):
        self.world = world
        self.origin = Server(world.ORIGIN_MBIT, world.ORIGIN_DELAY)

    def fetch(self, now, extent):
        return self.origin.ask(now, self.world.extent_bits)


class Via(Alone):
    """What several ask for at once is fetched once; the least recently used goes first."""

    def __init__(self, world):
        super().__init__(world)
        self.cache = Server(world.CACHE_MBIT, world.CACHE_DELAY)
        self.most = int(world.CACHE_GIB * 1024 / world.EXTENT)
        self.kept = collections.OrderedDict()  # extent: when it is there

    def fetch(self, now, extent):
        if extent not in self.kept:
            self.kept[extent] = super().fetch(now, extent)
            if len(self.kept) > self.most:
                self.kept.popitem(last=False)
        self.kept.move_to_end(extent)
        there, whole = self.kept[extent]
        first, last = self.cache.ask(now, self.world.extent_bits)
        # It hands on what comes as it comes.
        return max(first, there + self.world.CACHE_DELAY), max(last, whole + self.world.CACHE_DELAY)


class Tier(Alone):
    """The first mount that lacks an extent claims it, fetches it and writes it; the others wait for its slices."""

    def __init__(self, world):
        super().__init__(world)
        self.bucket = Server(world.BUCKET_MBIT, world.BUCKET_DELAY)
        self.slice_bits = world.SLICE * 8 * 1.048576
        self.written = {}  # extent: when its first slice is in the bucket, and its last

    def fetch(self, now, extent):
        if extent in self.written:
            first, last = self.written[extent]
            # Slices come one after the other: who waits for the next has waited long enough for all.
            step = self.slice_bits / self.world.UP_MBIT
            wait = first - now if first > now else min(step, max(0, last - now))
            if wait <= self.world.PATIENCE:
                there, whole = self.bucket.ask(now, self.world.extent_bits)
                return max(there, first + self.world.BUCKET_DELAY), max(whole, last + self.world.BUCKET_DELAY)
        # The question to the bucket comes first.
        first, last = super().fetch(now + self.world.BUCKET_DELAY, extent)
        slice_there = first + self.slice_bits / self.world.LINE_MBIT
        whole = max(last, slice_there + self.world.extent_bits / self.world.UP_MBIT)
        self.written.setdefault(extent, (slice_there + self.slice_bits / self.world.UP_MBIT, whole))
        return first, last


def play(world, design, starts, films):
    """Each mount plays one film from its beginning, with the next extent fetched as it plays one.

    Returns the origin's bits by film length, the waits for the first byte, and the seconds that each stood still.
    """
    first_bytes, stalls = [], [0.0] * len(starts)
    # When, who, which extent, when it is to be played.
    events = [(start, mount, 0, start) for mount, start in enumerate(starts)]
    heapq.heapify(events)
    while events:
        now, mount, number, due = heapq.heappop(events)
        first, last = design.fetch(now, (films[mount], number))
        # What comes as fast as it is played need not be there whole.
        last = max(last, now + world.extent_bits / world.LINE_MBIT)
        ready = max(first, last - world.seconds)
        if number == 0:
            first_bytes.append(ready - now)
        else:
            stalls[mount] += max(0.0, ready - due)
        shown = max(due, ready)
        if number + 1 < world.extents:
            heapq.heappush(events, (shown, mount, number + 1, shown + world.seconds))
    return design.origin.sent / (world.extents * world.extent_bits), sorted(first_bytes), stalls


def begin(world, number, within, films):
    """When each of so many mounts begins, and with which film: the same for all designs."""
    chance = random.Random(number)
    weights = [1 / (place + 1) for place in range(films)]
    sums, total = [], 0.0
    for weight in weights:
        total += weight
        sums.append(total)
    starts = [chance.uniform(0, within) for _ in range(number)]
    return starts, [bisect.bisect(sums, chance.uniform(0, total * 0.999999)) for _ in range(number)]


def short(number):
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def print_row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def print_films(world, title, numbers, within, films):
    print(f"\n### {title}\n")
    print_row("mounts", "design", "origin sends, films", "first byte, middle (s)", "99 of 100 (s)", "stand still")
    print_row("---:", "---", "---:", "---:", "---:", "---:")
    breaks = {}
    for number in numbers:
        starts, chosen = begin(world, number, within, films)
        for name, kind in zip(DESIGNS, [Alone, Via, Tier]):
            sent, waits, stalls = play(world, kind(world), starts, chosen)
            still = sum(stall > 1 for stall in stalls) / number
            if still > 0.01:
                breaks.setdefault(name, number)
            print_row(f"{number:,}", name, short(sent), short(waits[number // 2]), short(waits[number * 99 // 100]),
                      f"{still:.0%}")
    for name in DESIGNS:
        print(f"\n{name}: " + (f"breaks at {breaks[name]:,} mounts." if name in breaks else "holds."))


def print_listing(world, numbers):
    """In all designs each look is the origin's, so that no cache hides news. What has not changed has no body."""
    print("\n### A listing that changes, looked at all the time\n")
    print_row("mounts", "origin, requests a second", "origin, Mbit/s", "a change is seen after at most (s)")
    print_row("---:", "---:", "---:", "---:")
    bits = world.LISTING_KIB * 8 / 1024 * 1.048576
    for number in numbers:
        print_row(f"{number:,}", short(number / world.REFRESH), short(number * bits / world.CHANGE),
                  short(world.REFRESH))


def main():
    world = World(os.environ)
    numbers = [int(word) for word in sys.argv[1:]] or [1, 10, 100, 1000, 10000]
    print_films(world, "One film, all within a minute", numbers, 60, 1)
    print_films(world, "One film, in the course of an evening", numbers, 4 * 3600, 1)
    print_films(world, "A library that each samples, in the course of an evening", numbers, 4 * 3600, int(world.FILMS))
    print_listing(world, numbers)


main()
