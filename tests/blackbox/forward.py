"""Forwards loopback connections to the gateway and adds an agent's key, for clients that cannot send a header.

Only the head of a request is changed: its own address in Host and Origin becomes the gateway's, while a foreign Host or
Origin passes as it is, since the suite tests with them. Everything after the head is copied as it comes, both ways,
so that a stream stays one. A connection carries one request, and ends for both sides when it ends for one.
"""

import asyncio
import contextlib
import threading

HEAD_BYTES_MAX = 64 * 1024
PIECE_BYTES = 64 * 1024


def rewritten(head, own, target, key):
    """The head of a request for the target: bytes of lines that end in CRLF, up to the empty line."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = [f"authorization: Bearer {key}", "connection: close"]
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name in ("connection", "authorization"):
            continue
        if name == "host" and value == own:
            value = target
        if name == "origin" and value == f"http://{own}":
            value = f"http://{target}"
        headers.append(f"{name}: {value}")
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


async def copy(source, sink):
    while piece := await source.read(PIECE_BYTES):
        sink.write(piece)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


class Forwarder:
    """Listens on a port of its own. Use it as a context."""

    def __init__(self, port, key):
        self.target_port, self.key = port, key
        self.loop = asyncio.new_event_loop()

    def __enter__(self):
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        listening = asyncio.start_server(self.serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        self.server = asyncio.run_coroutine_threadsafe(listening, self.loop).result()
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.close(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def close(self):
        self.server.close()
        open_ones = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader, writer):
        # Cancelled is how a connection ends that is open when the forwarder closes.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            async with contextlib.AsyncExitStack() as ending:
                ending.callback(writer.close)
                head = await reader.readuntil(b"\r\n\r\n")
                target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
                ending.callback(target_writer.close)
                own, target = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.target_port}"
                target_writer.write(rewritten(head, own, target, self.key))
                ways = [asyncio.create_task(copy(reader, target_writer)),
                        asyncio.create_task(copy(target_reader, writer))]
                ending.callback(lambda: [way.cancel() for way in ways])
                # A client that ends its side wants no answer; a gateway that ends its own has given it.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*[way for way in ways if way.done()])
