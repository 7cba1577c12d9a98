"""What the state log keeps of its file, which has a record of each ledger that the bookie ever had."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.index import Index, state_record
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.ledgers.state_log_format import encode_file_header, encode_frame, log_end_record
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.storage_paths import StoragePaths
from tests.helpers.bookie.storage import KEY, small_config

_FRAMES, _EACH = 20, 2000


def test_ends_of_logs_take_no_memory_for_ledgers(tmp_path: Path) -> None:
    """The file is read as a whole, and decoded frame by frame."""
    disk, paths = SystemDisk(), StoragePaths.of(small_config(tmp_path))
    disk.make_directory(paths.ledgers)
    content = encode_file_header()
    for frame in range(_FRAMES):
        ledger_ids = range(frame * _EACH, (frame + 1) * _EACH)
        states = [state_record(StoredLedger(each, KEY)) for each in ledger_ids]
        content += encode_frame(len(content), frame + 1, [log_end_record(frame, 4096), *states])
    paths.states.write_bytes(content)
    index = Index(disk.open_key_values(paths.index))
    tracemalloc.start()
    try:
        ends = StateLog(disk, paths, index, None, {}).ends()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        index.close()
    assert ends == dict.fromkeys(range(_FRAMES), 4096)
    assert peak < 2 * len(content)
