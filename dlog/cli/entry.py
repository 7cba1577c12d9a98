"""Entry point of the installed `dlog` command. Imports nothing that an extra installs until it has checked for it."""

from __future__ import annotations

import sys

from ledger.errors import MissingExtraError
from ledger.extras import require


def main() -> None:
    """Run the command. Without the packages of the extra `cli`: one sentence on stderr and exit code 2."""
    try:
        require("the dlog command", "cli", "typer", "rich")
    except MissingExtraError as error:
        print(f"dlog: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    from dlog.cli.main import main as run

    run()
