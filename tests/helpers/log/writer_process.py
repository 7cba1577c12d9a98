"""A writer that appends numbers until it is stopped or refused: `… URI LOG DELETION_GRACE_S`, one event a line.

open    it owns the log
acked   so many numbers are acknowledged, the last of them with this id
ended   and with which error
"""

from __future__ import annotations

import asyncio
import sys

from dlog.client import connect
from dlog.config import LogConfig
from dlog.demo.events import tell
from ledger.errors import LogStoreError

PAUSE_S = 0.02


async def main(uri: str, log: str, grace_s: str) -> None:
    config = LogConfig(deletion_grace_s=float(grace_s))
    async with connect(uri, config=config) as client:
        writer = await client.open_writer(log, create=True)
        tell("open", epoch=writer.epoch)
        count = 0
        try:
            while True:
                acked = await writer.append(b"%d" % count)
                count += 1
                tell("acked", count=count, id=str(acked))
                await asyncio.sleep(PAUSE_S)
        except LogStoreError as error:
            tell("ended", error=type(error).__name__, message=str(error))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
