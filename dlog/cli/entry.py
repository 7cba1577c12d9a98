"""Where the installed `dlog` command starts: says what is missing before anything that may be is loaded."""

from __future__ import annotations

import sys

from ledger.errors import MissingExtraError
from ledger.extras import require


def main() -> None:
    """Run the command. Exits with 2 and one sentence on stderr without the packages of the extra `cli`."""
    try:
        require("the dlog command", "cli", "typer", "rich")
    except MissingExtraError as error:
        print(f"dlog: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    from dlog.cli.main import main as run

    run()
