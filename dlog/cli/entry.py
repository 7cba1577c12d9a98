"""Entry point of the installed `dlog` command. Imports nothing that an extra installs until it has checked for it."""

from __future__ import annotations

from ledger.early_interrupt import interruptible
from ledger.extras import require_for_command


def main() -> None:
    """Run the command."""
    with interruptible("dlog"):
        require_for_command("dlog", "cli", "typer", "rich")
        from dlog.cli.main import main as run

        run()
