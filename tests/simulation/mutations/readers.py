"""How far a reader may go, and what it must not pass over."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    ALL_THREE,
    ALONE,
    LATE_LISTINGS,
    SLOW_DISKS,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

MUTATIONS = (
    Mutation(
        "reader-trusts-what-a-bookie-holds",
        "A reader of an open ledger goes to the LAC: an entry that some bookie holds may yet be cut off.",
        (
            edit(
                "ledger.reading.lac_reader:LacReader._verified",
                ("self._ledger_id, None).lac)", "self._ledger_id, None).entry_id)"),
            ),
        ),
    ),
    Mutation(
        "reader-goes-one-beyond-the-lac",
        "A reader of an open ledger goes to the LAC, not to the entry behind it.",
        (
            edit(
                "ledger.reading.read_handle:ReadHandle.read_lac",
                ("covering(self.metadata))", "covering(self.metadata) + 1)"),
            ),
        ),
    ),
    Mutation(
        "shared-entries-beyond-those-asked-for",
        "What another reader has fetched may be more than this one may return yet.",
        (edit("ledger.reading.entry_runs:EntryRun.within", ("if len(", "if True or len(")),),
    ),
    Mutation(
        "reader-ends-as-another-one-leaves",
        "Readers of one client share the openings of a ledger: one that leaves ends no opening of another one, and a "
        "reader whose fetching was cancelled has not come to its end.",
        (
            edit(
                "ledger.reading.shared_ledgers:SharedLedgers._first",
                ("found.readers += 1  # else the last of them ends what this opening learns", "pass"),
                ("await handle.close()\n                await found.close()", "await handle.close()"),
            ),
            edit("dlog.read.fetcher:Fetcher.take", ("if not self._is_abandoned:", "if False:")),
        ),
        # What an opening adds takes a round trip also if the ledger is open, so another reader often leaves in between.
        given=(edit("ledger.reading.shared_ledgers:SharedLedger.learn", ("if handle.closed:", "if True:")),),
        plan=focused(
            **THREE,
            **ALONE | {"visitors": 4},
            polite=0.0,
            readers=0,
            rotation_entries=50,
            rotation_age_s=3.0,
            store_s_max=0.05,
            short_lists=False,
            chaos_s=12.0,
        ),
    ),
    Mutation(
        "reader-leaves-an-unsealed-ledger",  # docs/pitfalls.md#overlapping-rotation
        "A listed successor is no permission to go on: only the seal of the ledger itself is.",
        (
            edit(
                "dlog.core.tailing:Tailing.next_step",
                (
                    "if not ledger.sealed:",
                    "if not ledger.sealed and not self._window.count_above(ledger.ledger_id):",
                ),
            ),
        ),
    ),
    Mutation(
        "reader-skips-what-it-cannot-read",  # docs/pitfalls.md#trim-under-a-reader
        "A listed entry that cannot be read now is waited for, or reported; it is never passed over.",
        (
            edit(
                "dlog.read.fetcher:Fetcher._read_entries",
                ("except EntryNotFoundError:", "except (EntryNotFoundError, UnavailableError):"),
            ),
            edit(
                "dlog.core.tailing:Tailing._lose",
                ("if self._on_data_loss is OnMissing.FAIL:", "if False:"),
                ("self._gaps.append(gap)", "pass"),
            ),
        ),
    ),
    Mutation(
        "reader-takes-an-open-ledger-for-empty",
        "A ledger is left when it is sealed and read to its end; one that is merely empty so far is waited for.",
        (
            edit(
                "dlog.core.tailing:Tailing.next_step",
                ("if not ledger.sealed:", "if not ledger.sealed and ledger.readable >= 0:"),
            ),
        ),
    ),
    Mutation(
        "tail-taken-from-the-last-seal",
        "The tail lies in the first ledger that is not sealed: what that one has confirmed has succeeded, too.",
        (
            edit(
                "dlog.read.tail:_tail_of_record",
                (
                    "tail = MessageId(listed.ledger_id, last + 1, 0)",
                    "tail = MessageId(listed.ledger_id, last + 1 if sealed else 0, 0)",
                ),
            ),
        ),
    ),
    Mutation(
        "reader-forgets-the-tails-lac",
        "What is below the tail is read whatever LAC the bookies show that are asked next.",
        (
            edit("dlog.read.tail:_search", ("handle.confirm(end - 1)", "handle.confirm(-1)")),
            edit(
                "dlog.read.fetcher:Fetcher._open_ledger", ("handle.confirm(self._tail.entry_id - 1)", "pass")
            ),
        ),
        plan=focused("clog", "stall", **ALL_THREE, **SLOW_DISKS, readers=6),
    ),
    Mutation(
        "reader-begins-inside-the-batch-again",
        "A reader that starts at an id returns nothing below it.",
        (
            edit(
                "dlog.read.reader:Reader._clip",
                (
                    "first = fetched.first_index if entry_id == fetched.entries[0].entry_id else 0",
                    "first = 0",
                ),
            ),
        ),
        plan=focused(**THREE, readers=3, append_every_s=0.02),
    ),
    Mutation(
        "tail-taken-from-the-last-ledger",
        "While the next ledger is listed and its writer does not know it yet, appends go to the one before: "
        "a tail in the next one leaves them out.",
        (edit("dlog.read.tail:_tail_of_record", ("if not sealed:", "if False:")),),
        plan=focused(**LATE_LISTINGS),
    ),
    Mutation(
        "tail-misses-the-seal-it-waits-for",
        "A tail that waits in a ledger leaves it when it is sealed, also if the seal brings no new entry.",
        (
            edit(
                "dlog.core.tailing:Tailing.on_ledger",
                (
                    "_Ledger(ledger_id, readable, sealed)",
                    "_Ledger(ledger_id, readable, sealed and (known is None or readable > known.readable))",
                ),
            ),
            edit(
                "dlog.read.fetcher:Fetcher._wait_for_entries",
                (
                    "self._waits_for = step.why",
                    "self._waits_for = step.why\n    await asyncio.sleep(0.5)",
                ),
            ),
        ),
    ),
    Mutation(
        "read-ahead-is-not-given-back",
        "What a reader has taken no longer counts as read ahead; else a tail stops after a while.",
        (
            edit(
                "dlog.read.fetcher:Fetcher.take",
                ("-= found.entry_bytes", "-= len(found.entries[0].payload)"),
            ),
        ),
    ),
    Mutation(
        "tail-skips-the-first-message-of-the-next-ledger",
        "The next ledger is read from its first message on.",
        (
            edit(
                "dlog.core.tailing:Tailing._leave_ledger",
                ("MessageId(following.ledger_id, 0, 0)", "MessageId(following.ledger_id, 0, 1)"),
            ),
        ),
    ),
    Mutation(
        "rest-of-a-batch-is-lost-on-resume",
        "A reader that was left within a batch goes on with its next message, whichever way it is read then.",
        (
            edit(
                "dlog.read.reader:Reader._rest_of_batch",
                (
                    "return batch.slice(returned.id.batch_index + 1, self._last.batch_index + 1)",
                    "return None",
                ),
            ),
        ),
    ),
    Mutation(
        "stored-position-is-after-the-batch",
        "The position within a batch is the one of the next message, not of the next batch.",
        (
            edit(
                "dlog.read.reader:Reader.position",
                (
                    "self._returned.id._replace(batch_index=self._returned.id.batch_index + 1)",
                    "self._position",
                ),
            ),
        ),
    ),
    Mutation(
        "last-n-is-one-more",
        "A reader of the last n messages begins at the n-th before the tail.",
        (
            edit(
                "dlog.read.places:Places.start",
                ("wanted.last,", "wanted.last + 1,"),
            ),
        ),
    ),
    Mutation(
        "after-is-inclusive",
        "A reader after an id does not return the message with that id.",
        (edit("dlog.read.range:_after", ("return next_id(found)", "return found")),),
    ),
    Mutation(
        "log-being-deleted-reads-as-empty",
        "A log whose deletion is not finished raises, and is not read as an empty one.",
        (
            edit(
                "dlog.core.tailing:require_readable",
                ("if record.state is LogState.DELETING:", "if False:"),
            ),
        ),
        plan=focused(**THREE, other_log=True),
    ),
    Mutation(
        "trim-is-not-reported",
        "A reader that was asked for gaps reports what it passes over because it was trimmed.",
        (
            edit(
                "dlog.core.tailing:Tailing._report_trim",
                ("if self._on_trimmed is OnMissing.GAP:", "if False:"),
            ),
        ),
        plan=focused(**THREE, shrinks=True, readers=4, rotation_entries=5, rotation_age_s=0.7, chaos_s=16.0),
    ),
    Mutation(
        "time-is-sought-behind-its-message",
        "The position of a time is the first message appended at it, not after it.",
        (
            edit(
                "dlog.read.time_seek:_in_ledger", ("append_time_us < time_us:", "append_time_us <= time_us:")
            ),
        ),
        plan=focused(),
    ),
    Mutation(
        "time-begins-before-its-message",
        "The position of a time is the first message appended at or after it, not the one before that.",
        (
            edit(
                "dlog.read.time_seek:_in_ledger",
                ("return low, after", "return max(0, low - 1), max(0, after - 1)"),
            ),
        ),
        plan=focused(),
    ),
)
