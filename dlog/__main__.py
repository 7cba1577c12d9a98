"""`python -m dlog` is the `dlog` command."""

from __future__ import annotations

from dlog.cli.entry import main

if __name__ == "__main__":
    main()
