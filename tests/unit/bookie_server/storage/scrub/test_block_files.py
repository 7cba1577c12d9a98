"""Which files the index must lead to, and how far."""

from bookie_server.journal.log_mark import LogMark
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN
from bookie_server.storage.scrub.block_files import BlockFile, block_files
from bookie_server.storage.segments.places import segment_id

MARK = LogMark(5, 2000, 40)


def test_entry_logs_go_to_their_known_end() -> None:
    assert block_files({3: 900, 1: NOT_KNOWN}, MARK) == [BlockFile(1, None), BlockFile(3, 900)]


def test_journal_files_go_to_the_log_mark() -> None:
    """What comes after it is replayed, so the index need not have it yet."""
    ends = {segment_id(4): 7000, segment_id(5): 9000, segment_id(6): 600, 2: 64}
    assert block_files(ends, MARK) == [
        BlockFile(2, 64),
        BlockFile(segment_id(4), 7000),
        BlockFile(segment_id(5), 2000),
    ]
    assert block_files({segment_id(5): 1500}, MARK) == [BlockFile(segment_id(5), 1500)]
    assert block_files({segment_id(5): NOT_KNOWN}, MARK) == [BlockFile(segment_id(5), 2000)]
