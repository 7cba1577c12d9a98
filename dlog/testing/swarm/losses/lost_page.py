"""A log whose list has lost a page is read, trimmed and deleted as the docs promise, at the end of a run.

Source: docs/log-semantics.md#pages, #rule-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from dlog.core import metadata_keys
from dlog.core.tailing import Gap, GapReason
from dlog.errors import HistoryPageError, LogNotFoundError, TrimmedError
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, Message, MessageId, PageRef
from dlog.read.resolution import Resolution
from dlog.testing.swarm.losses.loss_check import LossCheck
from ledger.errors import MetadataVersionError, RecordNotFoundError

_TRIMMED_FIRST = 0.3
"""Otherwise a page that lists trimmed ledgers only is rare at the end of a run."""
_LEDGERS_AFTER = 6


@dataclass(frozen=True, slots=True)
class _Loss:
    """What was in the log, and the page that is lost since."""

    whole: list[Message]
    page: PageRef
    gap: Gap

    def kept(self, messages: list[Message]) -> list[Message]:
        return [one for one in messages if not self.gap.first <= one.id < self.gap.resume_at]

    @property
    def is_trimmed(self) -> bool:
        """Whether everything in the page was trimmed before: no reader misses anything of it.

        Its ledgers may be listed all the same: a trim takes out neither the newest with entries nor those after it.
        """
        return self.gap.first >= self.gap.resume_at

    @property
    def before(self) -> list[Message]:
        return [one for one in self.whole if one.id < self.gap.first]

    @property
    def after(self) -> list[Message]:
        return [one for one in self.whole if one.id >= self.gap.resume_at]

    @property
    def lost(self) -> list[Message]:
        return [one for one in self.whole if self.gap.first <= one.id < self.gap.resume_at]


class LostPage(LossCheck):
    """Takes one page out of the metadata store and uses the log."""

    what = "a lost page of its list"

    async def check(self) -> list[str]:
        """What must not have happened. Nothing is lost if no page lists anything."""
        if self._chance.random() < _TRIMMED_FIRST:
            await self._trim_all()
        loss = await self._lose_a_page()
        if loss is None:
            return []
        self._client = await self._connect()  # one that has not read the page yet
        try:
            with suppress(HistoryPageError):  # what is deletable is in the page or after it
                await self._again(lambda: self._client.collect(self._log))
            for use in self._uses_of_trimmed() if loss.is_trimmed else self._uses():
                await self._again(partial(use, loss))
            if self._chance.random() < 0.7:
                await self._trim(loss)
            await self._delete()
        finally:
            await self._client.close()
        return self._wrong[:1]

    # ---- the loss

    async def _trim_all(self) -> None:
        """More ledgers than may wait for deletion stay in the record; those written afterwards move them into pages."""
        self._client = await self._connect()
        try:
            for last in await self._again(lambda: self._items(last=1, on_data_loss="fail")):
                if isinstance(last, Message):
                    await self._again(partial(self._client.shrink, self._log, last.id))
            for _ in range(_LEDGERS_AFTER):
                await self._again(self._append_one)
        finally:
            await self._client.close()

    async def _append_one(self) -> None:
        async with self._client.open_writer(self._log) as writer:
            await writer.append(b"after the trim")

    async def _lose_a_page(self) -> _Loss | None:
        self._client = await self._connect()
        try:
            ref, record, pages = await self._again(self._listing_pages)
            if not pages:
                return None
            whole = await self._whole()
            page = self._chance.choice(pages)
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
            lose = self._chance.choice((self._remove, self._damage))
            await self._again(lambda: lose(key))
        finally:
            await self._client.close()
        first = max(MessageId(page.first_id, 0, 0), record.trim_before)
        gap = Gap(first, MessageId(page.last_id + 1, 0, 0), GapReason.DATA_LOSS)
        return _Loss(whole, page, gap)

    async def _trim_before(self) -> MessageId:
        return (await self._client.describe(self._log)).record.trim_before

    async def _listing_pages(self) -> tuple[LogRef, LogMetadata, list[PageRef]]:
        """The record, and the pages of all levels that list a ledger."""
        info = await self._client.describe(self._log)
        ref, record = info.ref, info.record
        ledgers = self._client.logs.ledger_list(ref, record)
        found: dict[PageRef, None] = {}
        async for listed in ledgers.walk():
            for level in range(1 + max((page.level for page in record.pages), default=-1)):
                page = await ledgers.ref_to_page(level, listed.ledger_id)
                if page is not None:
                    found[page] = None
        return ref, record, list(found)

    async def _remove(self, key: str) -> None:
        with suppress(RecordNotFoundError):  # an earlier attempt's
            await self._client.ledgers.store.remove_record(key, 0)

    async def _damage(self, key: str) -> None:
        with suppress(MetadataVersionError):  # an earlier attempt's
            await self._client.ledgers.store.write_record(key, b"damaged", 0)

    # ---- what is done with it

    def _uses(self) -> tuple[Callable[[_Loss], Awaitable[None]], ...]:
        return self._read_past, self._read_up_to, self._read_inside, self._read_last, self._resolve_lost

    def _uses_of_trimmed(self) -> tuple[Callable[[_Loss], Awaitable[None]], ...]:
        return self._read_as_before, self._resolve_trimmed

    async def _read_past(self, loss: _Loss) -> None:
        found = await self._items(on_data_loss="gap")
        self._expect("all with the gap", found, [*loss.before, loss.gap, *loss.after])

    async def _read_up_to(self, loss: _Loss) -> None:
        found: list[Message | Gap] = []
        reader = self._client.reader(
            self._log, until="latest", on_trimmed="skip", config=self._config, on_data_loss="fail"
        )
        try:
            async with reader:
                async for message in reader:
                    found.append(message)
        except HistoryPageError as error:
            if (error.first, error.last) != (loss.page.first_id, loss.page.last_id):
                self._say(f"a reader at the lost page {loss.page.name} raised {error!r}")
        else:
            self._say(f"a reader that accepts no loss ended at {reader.position} as if there was none")
        self._expect("all before the lost page", found, loss.before)

    async def _read_inside(self, loss: _Loss) -> None:
        if not loss.lost:
            return
        first = self._chance.choice(loss.lost).id
        found = await self._items(start=first, on_data_loss="gap")
        gap = Gap(first, loss.gap.resume_at, GapReason.DATA_LOSS)
        self._expect(f"the gap from {first}", found, [gap, *loss.after])

    async def _read_last(self, loss: _Loss) -> None:
        count = self._chance.randint(1, max(1, len(loss.whole)))
        found = await self._items(last=count, on_data_loss="gap")
        wanted = loss.whole[-count:]
        expected = loss.kept(wanted)
        if not loss.lost:  # its ledgers were empty: its gap is returned if these messages begin before it
            found = [one for one in found if one != loss.gap]
        if len(expected) == len(wanted):
            self._expect(f"the last {count}", found, expected)
            return
        # A ledger that was not counted counts as one message: earlier ones may be returned in place of the others.
        number = sum(isinstance(one, Message) for one in found)
        left = loss.kept(loss.whole)[-number:] if len(expected) < number <= count else expected
        before = [one for one in left if one.id < loss.gap.first]
        self._expect(f"the last {count} with the gap", found, [*before, loss.gap, *loss.after])

    async def _resolve_lost(self, loss: _Loss) -> None:
        for message in loss.lost[:1]:
            try:
                found = await self._client.resolve(self._log, message.id)
            except HistoryPageError:
                continue
            self._say(f"{message.id} in the lost page {loss.page.name} was resolved as {found}")

    async def _read_as_before(self, loss: _Loss) -> None:
        for on_data_loss in ("fail", "gap"):
            what = f"with on_data_loss={on_data_loss!r}, although the lost page was trimmed"
            found = await self._items(on_data_loss=on_data_loss)
            self._expect(f"all {what}", found, loss.whole)
            found = await self._items(start=datetime.fromtimestamp(0, UTC), on_data_loss=on_data_loss)
            self._expect(f"all from a time on {what}", found, loss.whole)
            for count in (self._chance.randint(1, max(1, len(loss.whole))), len(loss.whole) + 1):
                found = await self._items(last=count, on_data_loss=on_data_loss)
                self._expect(f"the last {count} {what}", found, loss.whole[-count:])

    async def _resolve_trimmed(self, loss: _Loss) -> None:
        for ledger_id in (loss.page.first_id, loss.page.last_id):
            found = await self._client.resolve(self._log, MessageId(ledger_id, 0, 0))
            if found is not Resolution.TRIMMED:
                self._say(
                    f"message {ledger_id}:0:0 in the trimmed page {loss.page.name} was resolved as {found}"
                )

    async def _trim(self, loss: _Loss) -> None:
        """To a position in the page, which only the page could decide, and to the one after it."""
        before = await self._again(self._trim_before)
        start, inside = MessageId(loss.page.first_id, 0, 0), MessageId(loss.page.last_id, 0, 0)
        try:
            await self._again(lambda: self._client.shrink(self._log, inside))
        except HistoryPageError:
            trimmed_to = await self._again(self._trim_before)
            if trimmed_to != before:
                self._say(f"a trim to {inside} failed, and the log is trimmed to {trimmed_to}")
        else:
            if not loss.is_trimmed:
                self._say(f"a trim to {inside} succeeded without the page {loss.page.name}")
        await self._again(lambda: self._client.shrink(self._log, loss.gap.resume_at))
        await self._again(lambda: self._client.collect(self._log))
        found = await self._again(lambda: self._items(on_data_loss="fail"))
        self._expect("all after the trimmed page", found, list(loss.after))
        try:
            await self._again(lambda: self._first_from(start))
        except TrimmedError:
            pass
        else:
            self._say(f"a reader from {start}, which was trimmed, found nothing wrong")

    async def _first_from(self, start: MessageId) -> None:
        async with self._client.reader(self._log, start, until="latest", config=self._config) as reader:
            async for _ in reader:
                return

    async def _delete(self) -> None:
        with suppress(LogNotFoundError):  # an earlier attempt's
            await self._again(lambda: self._client.delete(self._log))
        try:
            await self._again(lambda: self._items(on_data_loss="gap"))
        except LogNotFoundError:
            return
        self._say("a log that was deleted with a lost page can be read")
