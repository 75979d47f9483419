"""An SMSC with faults, based on another SMPP implementation than the hub (PyPI smpp34).

    python faulty_smsc.py PORT

The last two digits of a destination select a fault. All other numbers get a correct response and
receipt. Ids have 64 bits: hexadecimal in responses, decimal in receipts. The program prints each event
as one line of JSON, the first one when it listens. It ends when its standard input is closed.
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

THROTTLED = "01"  # throttled twice, then accepted
FULL = "02"  # refused once because the queue is full, then accepted
EARLY = "03"  # reported before the response
SILENT = "04"  # accepted without response or report
HALF = "05"  # every second part is reported
REPEATED = "06"  # reported three times
RESET = "07"  # accepted without response; the tenth resets every connection and ends the program
UNREPORTED = "08"  # accepted with a response, never reported
REFUSED = "09"  # refused permanently

RESET_AFTER = 10
REPEATS = 3
#: In the upper half of 64 bits, so that neither a double nor a signed integer can represent it.
FIRST_ID = 0xF000_0000_0000_0001


def print_event(**what):
    print(json.dumps(what), flush=True)


def reset_everything(port):
    """Ends the process so that its clients get a TCP reset."""
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


class FaultySmsc:
    def __init__(self, port):
        self.port = port
        self.server = smpp34.Server(host="127.0.0.1", port=port, system_id="faulty")
        self.sessions = {}
        self.ids = itertools.count(FIRST_ID)
        self.submits = collections.Counter()
        self.unanswered = []
        self.tasks = set()

    async def run(self):
        await self.server.start()
        print_event(listens=self.port)
        while True:
            event = await self.server.next()
            if isinstance(event, smpp34.Esme):
                self.sessions[event.session_id] = event
                print_event(bound=event.system_id)
            elif isinstance(event, smpp34.SubmitSmEvent):
                task = asyncio.create_task(self.handle_submit(event))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            else:
                self.sessions.pop(event.session_id, None)
                print_event(unbound=True)

    async def handle_submit(self, event):
        number = event.destination_addr
        fault = number[-2:]
        self.submits[number] += 1
        times = self.submits[number]
        print_event(submitted=number, times=times)
        message = next(self.ids)
        if fault == THROTTLED and times <= 2:
            event.reject(smpp34.ESME_RTHROTTLED)
        elif fault == FULL and times == 1:
            event.reject(smpp34.ESME_RMSGQFUL)
        elif fault == REFUSED:
            event.reject(smpp34.ESME_RINVDSTADR)
        elif fault == SILENT:
            # Without this reference the library would respond with an error.
            self.unanswered.append(event)
        elif fault == RESET:
            self.unanswered.append(event)
            if sum(count for other, count in self.submits.items() if other[-2:] == RESET) == RESET_AFTER:
                reset_everything(self.port)
        elif fault == EARLY:
            await self.report(event, message)
            event.accept(f"{message:x}")
        else:
            event.accept(f"{message:x}")
            reports = {HALF: times % 2, REPEATED: REPEATS, UNREPORTED: 0}.get(fault, 1)
            for _ in range(reports):
                await self.report(event, message)

    async def report(self, event, message):
        session = self.sessions[event.session_id]
        response = await session.deliver_sm(
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
        print_event(reported=event.destination_addr, status=response.command_status)


async def main():
    loop = asyncio.get_running_loop()
    # The test holds the other end of standard input. This process ends with the test.
    ended = loop.run_in_executor(None, sys.stdin.read)
    ended.add_done_callback(lambda _: os._exit(0))
    await FaultySmsc(int(sys.argv[1])).run()


asyncio.run(main())
