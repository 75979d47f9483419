"""A short message centre that makes faults, on another implementation of SMPP than ours (PyPI smpp34).

    python faulty_smsc.py PORT

The last two digits of a destination say what is wrong with it; every other number is answered and reported as it should be. Ids
are 64 bits wide, hexadecimal in answers and decimal in receipts. What it sees it prints, one JSON object a line; the
first line says that it listens. It ends when its standard input does.
"""

import asyncio
import collections
import itertools
import json
import os
import socket
import struct
import sys

import smpp34

THROTTLED = "01"  # refused twice as too fast, then taken
FULL = "02"  # refused once because a queue is full, then taken
EARLY = "03"  # reported, and only then answered
SILENT = "04"  # taken, never answered, never reported
HALF = "05"  # every second part is reported
REPEATED = "06"  # reported three times
RESET = "07"  # taken without an answer; the tenth resets every connection and ends the centre
UNREPORTED = "08"  # answered, never reported
REFUSED = "09"  # refused for good

RESET_AFTER = 10
REPEATS = 3
#: The upper half of 64 bits: neither a double nor a signed integer holds it.
FIRST_ID = 0xF000_0000_0000_0001


def say(**what):
    print(json.dumps(what), flush=True)


def reset_everything(port):
    """Ends the process so that its peers see a reset instead of an orderly end."""
    for fd in range(3, 256):
        try:
            connection = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        try:
            if connection.getsockname()[1] == port:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, IndexError):
            pass
    os._exit(1)


class Centre:
    def __init__(self, port):
        self.port = port
        self.server = smpp34.Server(host="127.0.0.1", port=port, system_id="faulty")
        self.sessions = {}
        self.ids = itertools.count(FIRST_ID)
        self.came = collections.Counter()
        self.unanswered = []
        self.tasks = set()

    async def run(self):
        await self.server.start()
        say(listens=self.port)
        while True:
            event = await self.server.next()
            if isinstance(event, smpp34.Esme):
                self.sessions[event.session_id] = event
                say(bound=event.system_id)
            elif isinstance(event, smpp34.SubmitSmEvent):
                task = asyncio.create_task(self.take(event))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            else:
                self.sessions.pop(event.session_id, None)
                say(unbound=True)

    async def take(self, event):
        number = event.destination_addr
        fault = number[-2:]
        self.came[number] += 1
        came = self.came[number]
        say(submitted=number, times=came)
        message = next(self.ids)
        if fault == THROTTLED and came <= 2:
            event.reject(smpp34.ESME_RTHROTTLED)
        elif fault == FULL and came == 1:
            event.reject(smpp34.ESME_RMSGQFUL)
        elif fault == REFUSED:
            event.reject(smpp34.ESME_RINVDSTADR)
        elif fault == SILENT:
            # Dropped, it would be answered with an error.
            self.unanswered.append(event)
        elif fault == RESET:
            self.unanswered.append(event)
            if sum(count for other, count in self.came.items() if other[-2:] == RESET) == RESET_AFTER:
                reset_everything(self.port)
        elif fault == EARLY:
            await self.report(event, message)
            event.accept(f"{message:x}")
        else:
            event.accept(f"{message:x}")
            times = {HALF: came % 2, REPEATED: REPEATS, UNREPORTED: 0}.get(fault, 1)
            for _ in range(times):
                await self.report(event, message)

    async def report(self, event, message):
        session = self.sessions[event.session_id]
        answer = await session.deliver_sm(
            source_addr=event.destination_addr,
            source_addr_ton=event.dest_addr_ton,
            source_addr_npi=event.dest_addr_npi,
            destination_addr=event.source_addr,
            dest_addr_ton=event.source_addr_ton,
            dest_addr_npi=event.source_addr_npi,
            esm_class=0x04,
            short_message=(
                f"id:{message} sub:001 dlvrd:001 submit date:2611211200 done date:2611211200 stat:DELIVRD err:000 text:"
            ).encode(),
        )
        say(reported=event.destination_addr, status=answer.command_status)


async def main():
    loop = asyncio.get_running_loop()
    # The test holds the other end: whatever becomes of it, this process ends.
    ended = loop.run_in_executor(None, sys.stdin.read)
    ended.add_done_callback(lambda _: os._exit(0))
    await Centre(int(sys.argv[1])).run()


asyncio.run(main())
