"""What a message is, and the condition under which it is appended."""

from __future__ import annotations

from tests.helpers.mutations.mutation import THREE, Mutation, focused
from tests.helpers.mutations.planting import edit

MUTATIONS = (
    Mutation(
        "expected-tail-is-not-compared",
        "A conditional append is refused if the log does not end with the expected message.",
        (
            edit(
                "dlog.write.writer:LogWriter._check_tail",
                ("if self._queue.holding or tail != expected:", "if self._queue.holding:"),
            ),
        ),
        plan=focused(**THREE, more_ways=True, append_every_s=0.02),
    ),
    Mutation(
        "expected-tail-is-compared-before-an-await",
        "A conditional append is decided in the step that submits it.",
        (
            edit(
                "dlog.write.writer:LogWriter.submit_expecting",
                (
                    "await self._check_tail(expected)",
                    "await self._check_tail(expected)\n    await asyncio.sleep(0.05)",
                ),
            ),
        ),
        plan=focused(**THREE, more_ways=True, append_every_s=0.02),
    ),
    Mutation(
        "key-of-the-batch-before",
        "A message is returned with the key that it was appended with.",
        (
            edit(
                "dlog.read.batch:MessageBatch.__iter__",
                ("self.payloads, self.keys,", "self.payloads, reversed(self.keys),"),
            ),
        ),
        plan=focused(**THREE, keys=True),
    ),
)
