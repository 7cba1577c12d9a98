"""The `bookie` command, also as `python -m bookie_server`: says what is missing before it is loaded."""

from __future__ import annotations

import sys

from ledger.errors import MissingExtraError
from ledger.extras import require


def main() -> None:
    """Run the command. Exits with 2 and one sentence on stderr without the packages of the extra `server`."""
    try:
        require("the bookie command", "server", "rocksdict", "typer")
    except MissingExtraError as error:
        print(f"bookie: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    from bookie_server.tools.cli import main as run

    run()


if __name__ == "__main__":
    main()
