"""A log of which one ledger has lost its metadata is read, written, trimmed and deleted, at the end of a run.

Source: docs/log-semantics.md#rule-23, #rule-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from dlog.client import LogClient
from dlog.core.tailing import Gap
from dlog.errors import DataLossError, LogNotFoundError
from dlog.model import ListedLedger, Message, MessageId
from dlog.testing.swarm.losses.loss_check import LossCheck
from ledger.config import Visibility
from ledger.model import LedgerId

_DAMAGED = (None, b"", b"damaged", b"BookieMetadataFormatVersion\t3\n\x07")
"""What is in the place of the metadata; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What was in the log, and the ledger that is lost since."""

    whole: list[Message]
    ledger: ListedLedger

    @property
    def ledger_id(self) -> LedgerId:
        return self.ledger.ledger_id

    @property
    def stops_takeovers(self) -> bool:
        """Whether the record does not say where it ends."""
        return self.ledger.seal is None

    @property
    def lost(self) -> list[Message]:
        return [one for one in self.whole if one.id.ledger_id == self.ledger_id]

    @property
    def kept(self) -> list[Message]:
        return [one for one in self.whole if one.id.ledger_id != self.ledger_id]

    @property
    def before(self) -> list[Message]:
        return [one for one in self.whole if one.id.ledger_id < self.ledger_id]


class LostLedger(LossCheck):
    """Takes the metadata of one ledger away, or damages it, and uses the log."""

    what = "a ledger without metadata"

    _given_up = False
    """Whether a takeover may have given the ledger up."""

    async def check(self) -> list[str]:
        """What must not have happened."""
        loss = await self._lose_a_ledger()
        self._client = await self._connect()  # one that has not read the ledger yet
        try:
            readable = [self._read_past, self._read_up_to, self._read_from_a_time, self._read_last]
            uses = [self._read_no_further] if loss.stops_takeovers else readable
            uses.append(self._look)
            self._chance.shuffle(uses)
            for use in uses:
                self._lose_an_answer()
                await self._again(partial(use, loss))
            self._lose_an_answer()
            appended = await self._again(partial(self._write, loss))
            self._metadata.faults.disarm()
            await self._trim(appended)
            await self._delete()
        finally:
            await self._client.close()
        return self._wrong[:1]

    # ---- the loss

    async def _lose_a_ledger(self) -> _Loss:
        self._client = await self._connect()
        try:
            await self._keep_everything()
            await self._again(partial(self._append, self._client))
            whole = await self._whole()
            info = await self._again(lambda: self._client.describe(self._log))
            known = self._client.logs.ledger_list(info.ref, info.record)
            listed = [one async for one in known.walk()]
        finally:
            await self._client.close()
        # Readers wait at the first open one, whatever has become of those after it.
        within_reach = [one for one in listed if one.ledger_id <= _first_open(listed)]
        ledger = self._chance.choice((within_reach[-1], self._chance.choice(within_reach)))
        self._metadata.replace_ledger(ledger.ledger_id, self._chance.choice(_DAMAGED))
        return _Loss(whole, ledger)

    async def _append(self, client: LogClient) -> None:
        """Leave the newest ledger open, unless a message that was acknowledged might then be readable later only."""
        writer = await client.open_writer(self._log)
        await writer.append(b"before the loss")
        if client.config.visibility is Visibility.FAST or self._chance.random() < 0.5:
            await writer.close()
        else:
            writer.abort()

    # ---- what is done with it

    async def _read_past(self, loss: _Loss) -> None:
        found = await self._items(on_data_loss="gap")
        self._expect_past(loss, "all with the gap", found)

    async def _read_no_further(self, loss: _Loss) -> None:
        """The end of the log is unknown, until the ledger is given up."""
        for on_data_loss in ("fail", "gap"):
            await self._raises(True, partial(self._items, on_data_loss=on_data_loss))
        async with self._client.reader(
            self._log, until=MessageId(loss.ledger_id, 0, 0), on_trimmed="skip", config=self._config
        ) as reader:
            self._expect("all before the lost ledger", [item async for item in reader.items()], loss.before)

    def _expect_past(self, loss: _Loss, what: str, found: list[Message | Gap]) -> None:
        self._expect(what, [one for one in found if isinstance(one, Message)], loss.kept)
        gaps = [one for one in found if isinstance(one, Gap)]
        if len(gaps) > 1 or not all(any(g.first <= m.id < g.resume_at for g in gaps) for m in loss.lost):
            self._say(f"ledger {loss.ledger_id} with {len(loss.lost)} messages was passed with {gaps}")

    async def _read_up_to(self, loss: _Loss) -> None:
        found: list[Message | Gap] = []
        try:
            async with self._client.reader(
                self._log, until="latest", on_trimmed="skip", config=self._config
            ) as reader:
                async for message in reader:
                    found.append(message)
        except DataLossError as error:
            if error.ledger_id != loss.ledger_id:
                self._say(f"a reader at the lost ledger {loss.ledger_id} raised {error!r}")
            self._expect("all before the lost ledger", found, loss.before)
        else:
            if loss.lost:
                self._say(f"a reader that accepts no loss ended at {reader.position} as if there was none")
            self._expect("all", found, loss.kept)

    async def _read_from_a_time(self, loss: _Loss) -> None:
        found = await self._items(start=datetime.fromtimestamp(0, UTC), on_data_loss="gap")
        self._expect_past(loss, "all from a time on", found)

    async def _read_last(self, loss: _Loss) -> None:
        """Those of the last n that are left, and perhaps earlier ones: how many the ledger had may be unknown."""
        count = self._chance.randint(1, len(loss.whole))
        found = await self._items(last=count, on_data_loss="gap")
        messages = [one for one in found if isinstance(one, Message)]
        fewest = [one for one in loss.whole[-count:] if one in loss.kept]
        at = len(loss.kept) - len(messages)
        if at < 0 or messages != loss.kept[at:] or len(messages) < len(fewest):
            self._expect(f"the last {count}", found, fewest)
        elif len(messages) < count and loss.before and not any(isinstance(one, Gap) for one in found):
            self._say(f"the last {count} were {len(messages)} messages without a gap")

    async def _look(self, loss: _Loss) -> None:
        """No view of the log fails because of one ledger, but for those of what it held."""
        ledgers = await self._client.list_ledgers(self._log)
        if loss.ledger_id not in [one.ledger_id for one in ledgers]:
            self._say(f"the lost ledger {loss.ledger_id} is listed no more: {ledgers}")
        await self._client.history(self._log)
        await self._client.collect(self._log)
        await self._client.verify(self._log)
        await self._raises(loss.stops_takeovers, partial(self._client.overview, self._log))
        swept = await self._client.admin.sweep(age_s=0.0)
        if {one.ledger_id for one in ledgers} & {*swept}:
            self._say(f"a sweep deleted {swept}, which has listed ledgers")
        for message in loss.lost[:1]:
            await self._raises(True, partial(self._client.explain, self._log, message.id))
            # The seal in the record says that it was committed, but not how many messages its entry has.
            is_unknown = loss.stops_takeovers or message.id.batch_index > 0
            await self._raises(is_unknown, partial(self._client.resolve, self._log, message.id))
            set_cursor = partial(self._client.set_cursor, self._log, "at-the-loss", message.id)
            await self._raises(loss.stops_takeovers, set_cursor)

    async def _raises(self, expected: bool, work: Callable[[], Awaitable[object]]) -> None:
        try:
            found = await work()
        except DataLossError as error:
            if not expected:
                self._say(f"{error!r} was raised although the record says where the ledger ends")
        else:
            if expected:
                self._say(f"{work} returned {found!r} instead of an error that reports the loss")

    async def _write(self, loss: _Loss) -> Message:
        """Returns the last message afterwards."""
        try:
            writer = await self._client.open_writer(self._log)
        except DataLossError as error:
            if not loss.stops_takeovers:
                self._say(f"a takeover raised {error!r}, although the record says where the ledger ends")
            self._given_up = True  # perhaps, if the answer to this is lost
            writer = await self._client.open_writer(self._log, given_up=[loss.ledger_id])
        else:
            if loss.stops_takeovers and not self._given_up:
                self._say(f"a takeover passed over ledger {loss.ledger_id}, whose end is unknown")
        async with writer:
            appended = await writer.append(b"after the loss")
        found = await self._items(on_data_loss="gap")
        messages = [one for one in found if isinstance(one, Message)]
        self._expect("all before the takeover", messages[: len(loss.kept)], loss.kept)
        if appended not in [one.id for one in messages[len(loss.kept) :]]:
            self._say(
                f"{appended}, which was appended after the loss, is not in {messages[len(loss.kept) :]}"
            )
        return messages[-1]

    async def _trim(self, appended: Message) -> None:
        """To what was appended last: then nothing is missing any more."""
        await self._again(lambda: self._client.shrink(self._log, appended.id))
        found = await self._again(lambda: self._items(on_data_loss="fail"))
        self._expect("what is left after the trim", found, [appended])

    async def _delete(self) -> None:
        try:
            await self._again(lambda: self._client.delete(self._log))
            await self._again(lambda: self._items(on_data_loss="gap"))
        except LogNotFoundError:
            return
        self._say("a log that was deleted with a lost ledger can be read")


def _first_open(listed: list[ListedLedger]) -> LedgerId:
    return next((one.ledger_id for one in listed if one.seal is None), listed[-1].ledger_id)
