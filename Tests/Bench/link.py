"""link.py PORT [DELAY_MS [MBIT_S [ALL_MBIT_S]]]  a slow link to a server on loopback: prints the port that leads over it.

DELAY_MS is a round trip: half of it lies on each way, and a new connection costs one more, as TCP's handshake does.
MBIT_S caps what each connection brings, as a server or a shaped line does that counts by connection; 0: no cap.
ALL_MBIT_S caps what all connections bring together, each in its turn.
It ends with its standard input.
"""

import asyncio
import collections
import contextlib
import os
import sys

CHUNK = 64 << 10
# What a sender's and a receiver's socket hold beside what is on the way.
BUFFERS = 256 << 10


class Line:
    """Carries one piece after the other, of all connections in turn."""

    def __init__(self, rate):
        self.rate, self.lock, self.free = rate, asyncio.Lock(), 0

    async def carry(self, count):
        if not self.rate:
            return
        clock = asyncio.get_running_loop().time
        # Waiters have it in the order in which they came, and each has one piece.
        async with self.lock:
            # A timer that comes late does not make the line slower.
            self.free = max(self.free, clock() - 0.02) + count / self.rate
            if self.free > clock():
                await asyncio.sleep(self.free - clock())


class Way:
    """One direction of a connection: bytes come out as late, and as slowly, as the link lets them."""

    def __init__(self, reader, writer, delay, rate, line):
        self.reader, self.writer, self.delay, self.rate, self.line = reader, writer, delay, rate, line
        self.chunk = CHUNK // 4 if line.rate else CHUNK
        most = rate or line.rate
        self.limit = BUFFERS + int(most * delay * 2) if most else 16 << 20
        self.queue, self.held = collections.deque(), 0
        self.changed = asyncio.Event()

    async def take(self):
        clock = asyncio.get_running_loop().time
        free = 0.0
        while True:
            data = await self.reader.read(self.chunk)
            await self.line.carry(len(data))
            # A line is busy with one chunk at a time; the delay comes on top of that.
            free = max(free, clock()) + (len(data) / self.rate if self.rate else 0)
            self.queue.append((free + self.delay, data))
            self.held += len(data)
            self.changed.set()
            if not data:
                return
            while self.held > self.limit:
                self.changed.clear()
                await self.changed.wait()

    async def give(self):
        clock = asyncio.get_running_loop().time
        while True:
            while not self.queue:
                self.changed.clear()
                await self.changed.wait()
            due, data = self.queue.popleft()
            if due > clock():
                await asyncio.sleep(due - clock())
            self.held -= len(data)
            self.changed.set()
            if not data:
                if self.writer.can_write_eof():
                    self.writer.write_eof()
                return
            self.writer.write(data)
            await self.writer.drain()


async def carry(port, delay, rate, line, reader, writer):
    upstream, tasks, is_answered = None, [], False
    try:
        # The handshake, which the kernel's own on loopback did not cost.
        await asyncio.sleep(delay * 2)
        near, upstream = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK)
        out, back = Way(reader, upstream, delay, 0, Line(0)), Way(near, writer, delay, rate, line)
        tasks = [asyncio.ensure_future(step) for step in (out.take(), out.give(), back.take(), back.give())]
        # Once the server's side is over so is the connection, and an end of the client's is no half-open one here.
        await asyncio.wait([tasks[1], tasks[3]], return_when=asyncio.FIRST_COMPLETED)
        is_answered = tasks[3].done()
    except (OSError, asyncio.CancelledError):
        pass
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # What is answered whole is still to be delivered.
    writer.close() if is_answered else writer.transport.abort()
    if upstream:
        upstream.transport.abort()


async def main(port, delay="40", rate="0", all_rate="0"):
    way, bytes_a_second, line = float(delay) / 2000, float(rate) * 1e6 / 8, Line(float(all_rate) * 1e6 / 8)

    # A timer that comes late is jitter that the link is not meant to have.
    with contextlib.suppress(OSError):
        os.nice(-10)

    # asyncio holds its tasks weakly: one that nobody else knows of can be collected in the middle of its work.
    connections = set()

    async def connected(reader, writer):
        connections.add(asyncio.current_task())
        with contextlib.suppress(asyncio.CancelledError):
            await carry(int(port), way, bytes_a_second, line, reader, writer)
        connections.discard(asyncio.current_task())

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=CHUNK)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # Connections end with the link; asyncio would complain of each.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
