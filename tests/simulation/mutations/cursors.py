"""Bugs of cursors: who may move one, and where its next reader begins."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation, focused
from tests.helpers.mutations.planting import edit

_SHARED = {"consumers": 3, "chaos_s": 12.0, "append_every_s": 0.02}

MUTATIONS = (
    Mutation(
        "older-reader-moves-the-cursor",
        "Only the last holder moves a cursor: one that was replaced must not take the newer version for its own.",
        (
            edit(
                "dlog.metadata.cursor_store:CursorStore.move",
                ("if found.value.holder != moved.holder:", "if found.value.cursor is None:"),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "opening-does-not-take-the-cursor-over",
        "A reader that opens writes its own number into the cursor; otherwise two readers hold it.",
        (
            edit(
                "dlog.metadata.cursor_store:CursorStore.take",
                (
                    "if stored is not None and stored.value.holder == holder:",
                    "if stored is not None and stored.value.cursor is not None:",
                ),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "lost-answer-to-an-ack-is-a-success",
        "After a lost answer the cursor is read: the acknowledgement may not have been made.",
        (
            edit(
                "dlog.metadata.cursor_store:CursorStore.move",
                (
                    "failed = error\n",
                    "failed = error\n"
                    "            if in_doubt is not None:\n"
                    "                return Versioned(moved, version)\n",
                ),
            ),
        ),
        plan=focused("metadata_request_lost", "metadata_partition", **_SHARED),
    ),
    Mutation(
        "removed-cursor-begins-again-at-version-0",
        "A removed cursor keeps its key: the version of one that is created anew would begin again.",
        (
            edit(
                "dlog.metadata.cursor_store:CursorStore.remove",
                (
                    "await self._change(ref, name, decide)",
                    "await forget_value(self._store, self._environment, _key(ref, name), _subject(ref, name))",
                ),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "ack-acknowledges-one-message-more",
        "An acknowledgement moves the cursor behind its message, and not behind the next one.",
        (
            edit(
                "dlog.read.reader:Reader.ack_below",
                (
                    "position = behind\n",
                    "position = behind._replace(batch_index=behind.batch_index + 1)\n",
                ),
            ),
        ),
        plan=focused(**_SHARED, batching=True),
    ),
)
