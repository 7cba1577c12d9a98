"""Every kind of fault that the simulation has, under the name by which a run counts it."""

from __future__ import annotations

FAULTS: dict[str, dict[str, str]] = {
    "network": {
        "delay": "a packet took ten times the usual time or more",
        "reordering": "a packet arrived before an earlier one of another connection",
        "reset": "a connection was reset, with a part of what was on its way lost",
        "stall": "nothing of a connection arrived for a while",
        "half_open": "nothing of a connection ever arrived again, and neither end was notified",
        "cut": "nothing passed between two nodes",
        "cut_one_way": "nothing passed from one node to another, but back",
        "clog": "nothing passed from one node to another for a while, then all of it together",
        "refuse": "a connection was refused by a node that runs",
        "isolate": "a node was cut off from all others",
        "split": "all nodes were split into two groups",
    },
    "disk": {
        "torn_write": "after a power cut a file held a part of a write, or of its sectors",
        "lost_write": "after a power cut something visible before was missing",
        "read_error": "EIO at a read",
        "write_error": "EIO at a write, with a part of it written",
        "sync_error": "EIO at a sync",
        "page_loss": "a part of what a failed sync left behind never reached the disk",
        "disk_full": "ENOSPC",
        "no_descriptor": "EMFILE: nothing could be opened",
        "short_write": "a write was carried out in pieces",
        "slow_sync": "a sync took up to 20 s",
        "bit_rot": "a durable bit was flipped (of a minority of copies, or beyond the contract)",
        "misdirected_read": "a read returned, once, what is elsewhere in the file",
        "bad_sectors": "a few sectors became unreadable for good (of a minority of copies)",
        "sector_error": "EIO at a read of such a sector",
        "misdirected_write": "a write landed elsewhere in the file (beyond the contract)",
        "lost_file": "a file was missing (of a minority of copies, or beyond the contract)",
        "index_damage": "records of the index, or all of it, could not be read (as before)",
        "nearly_full": "a disk was so full that its bookie became read-only",
        "directory_full": "a ledger directory, or the entry logs of one, was full for up to 8 s",
        "lost_directory": "a bookie was killed and started again without a ledger directory (of a minority of copies)",
    },
    "metadata": {
        "metadata_unavailable": "a request was certainly not made",
        "metadata_request_lost": "outcome unknown: the request was lost",
        "metadata_answer_lost": "outcome unknown: the request counted, the answer was lost",
        "metadata_request_late": "outcome unknown: the request counted, but only later",
        "metadata_partition": "a node could not reach the store",
        "session_loss": "the session of a node that lives ended",
        "watch_late": "a watch was called seconds late",
        "watch_lost": "a watch was called only after the connection was made anew",
        "watch_spurious": "a watch was called without a change",
        "lost_value": "a value was removed or damaged, for a while, after all else was checked",
    },
    "production code": {
        "cancel": "a call of a program was cancelled",
        "buggify": "a point in the code forced behaviour that is legal but rare",
    },
    "processes and clocks": {
        "kill": "kill -9",
        "pause": "a process was stopped and went on later",
        "power_cut": "a host lost its power",
        "crash_at_effect": "it did so between two effects of one job on its disk",
        "clock_jump": "the wall clock of a host jumped",
        "clock_rate": "the clocks of a host ran 1 to 5 % faster or slower, or twice or half as fast",
    },
    "membership": {
        "lost_bookie": "a bookie, its host or its disk was lost for good",
        "join": "a new bookie registered",
        "leave": "a bookie was stopped in good order and came back",
    },
}

ALSO_COUNTED = {"power_off", "process_crash"}
"""The same once more, seen by the host and by the disk."""


def unnamed(counted: dict[str, int]) -> set[str]:
    """What was counted and has no line above."""
    named = {kind for kinds in FAULTS.values() for kind in kinds}
    return set(counted) - named - ALSO_COUNTED
