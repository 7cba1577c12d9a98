"""Entry point of the `bookie` command. Imports nothing that an extra installs until it has checked for it."""

from __future__ import annotations

from ledger.early_interrupt import interruptible
from ledger.extras import require_for_command


def main() -> None:
    """Run the command."""
    with interruptible("bookie"):
        require_for_command("bookie", "server", "rocksdict", "typer")
        from bookie_server.tools.cli import main as run

        run()


if __name__ == "__main__":
    main()
