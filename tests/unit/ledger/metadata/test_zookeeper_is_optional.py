"""kazoo costs a tenth of a second to load; who uses another store must not pay it."""

from __future__ import annotations

import subprocess
import sys


def test_kazoo_is_loaded_for_a_zookeeper_address_only() -> None:
    program = (
        "import asyncio, sys, dlog\n"
        "from ledger.metadata.drivers import open_store\n"
        "asyncio.run(asyncio.wait_for(open_store('memory:x'), 10))\n"
        "sys.exit('kazoo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
