"""What `dlog standalone` prints about a cluster with few bookies."""

from __future__ import annotations

from dlog.cli.standalone import copies_line


def test_a_line_describes_the_copies_only_while_some_are_missing() -> None:
    rule = "appends need 2 writable bookies, and have 3 copies with 3"
    assert copies_line(1) == f"{rule}: nothing can be appended now, with 1\n"
    assert copies_line(2) == f"{rule}: they have 2 copies now, with 2\n"
    assert copies_line(3) == copies_line(4) == ""
