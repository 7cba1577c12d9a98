"""One epoch of a log that is a sink's: what its tasks must know. A plain value, sent from process to process."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.core.publication import Ownership
from dlog.format.entry import SnapshotPlace
from dlog.metadata.log_ref import LogRef
from dlog.model import Owner, SinkMark


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkEpoch:
    """A batch, or several attempts at it.

    `uri`: canonical address of the cluster's metadata store. `append_time_us`: of every entry of the batch; not below
    any in the log when it was taken over. `producers`: the snapshot of the log's producers, ELSEWHERE if it could not
    be read, None if there are none. `marks`: the batches that sinks had published by then.
    """

    uri: str
    ref: LogRef
    epoch: int
    owner: Owner
    append_time_us: int
    producers: SnapshotPlace | None
    marks: tuple[SinkMark, ...]

    @property
    def ownership(self) -> Ownership:
        return Ownership(self.ref.log_uuid, self.epoch, self.owner)

    def has(self, writer_id: str, batch: int) -> bool:
        """Whether the batch had been published when the log was taken over."""
        return any(mark.writer_id == writer_id and mark.batch >= batch for mark in self.marks)
