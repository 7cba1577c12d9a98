"""Cookies as a bookie's first start writes them, for directories that a test has made itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bookie_server.cookie import COOKIE_FILE, own_cookie
from ledger.metadata.format.cookie import encode_cookie


def write_cookies(home: Path, bookie_id: str = "127.0.0.1:3181", instance_id: str = "instance") -> None:
    """In `home/journal` and `home/ledgers`, which are made if they are missing."""
    journal, ledgers = home / "journal", home / "ledgers"
    ours = own_cookie(bookie_id, journal, ledgers, instance_id)
    for role, directory in (("journal", journal), ("ledger", ledgers)):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / COOKIE_FILE).write_bytes(encode_cookie(replace(ours, role=role)))
