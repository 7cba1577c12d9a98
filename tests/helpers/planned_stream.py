"""A stream of Spark without a session: its reader is asked as Spark asks it, and its tasks run here."""

from __future__ import annotations

import json
import pickle
from typing import Any

from spark_connector.read.schema import read_schema
from spark_connector.stream.followed_log import KEPT_S
from spark_connector.stream.reader import DlogStreamReader

LONGER_THAN_KEPT_S = 2 * KEPT_S

Offset = dict[str, Any]


class PlannedStream:
    """A stream's reader, and how far it has come. Offsets go through JSON, as in a checkpoint."""

    def __init__(self, uri: str, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self._options = {"metadata": uri, "startingId": "earliest"} | texts
        self.open()
        self.at: Offset = through_json(self.reader.initialOffset())

    def open(self) -> None:
        """In a process of its own Spark unpickles it."""
        self.reader = pickle.loads(pickle.dumps(DlogStreamReader(self._options, read_schema(False))))

    def latest(self) -> Offset:
        return through_json(self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit()))

    def batch(self) -> list[bytes]:
        """The next micro-batch; nothing if there is none."""
        start, self.at = self.at, self.latest()
        return [] if self.at == start else self.between(start, self.at)

    def between(self, start: Offset, end: Offset) -> list[bytes]:
        return [row["value"] for row in self.rows(start, end)]

    def by_log(self) -> dict[str, list[bytes]]:
        """The next micro-batch, by log."""
        start, self.at = self.at, self.latest()
        found: dict[str, list[bytes]] = {}
        for row in self.rows(start, self.at):
            found.setdefault(row["log"], []).append(row["value"])
        return found

    def rows(self, start: Offset, end: Offset) -> list[dict[str, Any]]:
        partitions = self.reader.partitions(start, end)
        batches = [batch for each in partitions for batch in self.reader.read(each)]
        return [row for batch in batches for row in batch.to_pylist()]


def through_json(offset: Offset) -> Offset:
    found: Offset = json.loads(json.dumps(offset))
    return found
