"""What a degraded ledger's tag says of the configured quorum."""

from __future__ import annotations

import pytest

from dlog.core.degraded import fallback_tags, wanted_quorum
from dlog.core.metadata_keys import TAG_WANTED_QUORUM
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes


def metadata(*custom: tuple[str, bytes]) -> LedgerMetadata:
    fragment = Fragment(EntryId(0), (BookieId("b0:3181"), BookieId("b1:3181")))
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=2, write=2, ack=2), fragments=(fragment,), custom=custom
    )


@pytest.mark.parametrize("wanted", [QuorumSizes(), QuorumSizes(ensemble=5, write=4, ack=3)])
def test_the_configured_quorum_can_be_read_from_the_tag(wanted: QuorumSizes) -> None:
    assert wanted_quorum(metadata(*fallback_tags(wanted))) == wanted
    assert wanted_quorum(metadata()) is None


def test_the_bytes_of_the_tag() -> None:
    """As docs/formats.md has them."""
    wanted = QuorumSizes(ensemble=5, write=4, ack=3)
    assert fallback_tags(wanted) == (("dlog.wanted_quorum", b"5,4,3"),)


@pytest.mark.parametrize("value", [b"", b"3", b"3,3", b"3,3,2,1", b"3,4,2", b"3,3,0", b"a,b,c", b"\xff,3,2"])
def test_a_damaged_tag_is_no_error(value: bytes) -> None:
    assert wanted_quorum(metadata((TAG_WANTED_QUORUM, value))) is None
