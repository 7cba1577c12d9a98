"""`dlog append`: append messages from a file or from stdin, as fast as they are read."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

from dlog.cli.input.csv_rows import Columns
from dlog.cli.input.formats import InputFormat, InputOptions, read_messages
from dlog.cli.input.gzip_chunks import decompressed
from dlog.cli.input.message import Group
from dlog.cli.input.options import (
    CsvColumns,
    Format,
    Gzip,
    Header,
    Key,
    KeyColumn,
    PayloadColumn,
    Tombstones,
    parsed_headers,
)
from dlog.cli.input.source import chunks_of, opened_input, progress
from dlog.cli.options import KeyDelimiter, LogName, Metadata, Namespace, connect, delimiter_bytes
from dlog.errors import MessageTooLargeError
from dlog.model import check_log_name
from ledger.command_line import DoneInPart, not_nan, say
from ledger.errors import ConfigurationError, LogStoreError, OutcomeUnknownError
from ledger.model import LedgerId
from ledger.printing import counted

if TYPE_CHECKING:
    from dlog.blocking.pending import Pending as PendingAppend
    from dlog.blocking.producer import Producer
    from dlog.config import LogConfig
    from dlog.model import Appended, MessageId

ProducerName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Append as this producer: each message of the input once, however often the command is repeated.",
    ),
]

WaitForOwner = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        callback=not_nan,
        help="Ask the current writer to hand the log over, and fence it only after this time.",
    ),
]
GivenUp = Annotated[
    list[int] | None,
    typer.Option(
        metavar="LEDGER",
        min=0,
        help="Accept that a lost ledger of the log is lost, with its messages; may be repeated.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", help="Fail if an append is not durable after this time."),
]
Create = Annotated[bool, typer.Option("--create", help="Create the log if it does not exist.")]

RUN_MESSAGES, RUN_BYTES = 1_000, 256 * 1024
"""Limits of a run, which is appended as one entry: enough for full speed, well below an entry's limit.

The bytes are encoded ones: of many empty headers almost all are overhead.
"""
PENDING_MAX = 64
"""Runs in flight: some 16 MiB of large messages, less of small ones."""

TIMEOUT_S = 30.0
"""Longer than a restart of a bookie or metadata store. The library's default (`hold_limit_s`) is two minutes, since
no one watches a program."""


class CodecName(StrEnum):
    """As `dlog.Codec` names them."""

    NONE = "none"
    ZSTD = "zstd"
    LZ4 = "lz4"


Compression = Annotated[
    CodecName,
    typer.Option("--codec", help="Compress the messages of each entry; zstd packs tighter, lz4 is faster."),
]


class Pending(Protocol):
    """A run in flight, as `Writer.submit_many` returns it."""

    def done(self) -> bool: ...
    def result(self) -> Sequence[MessageId]: ...


class SequencedRuns:
    """Runs of a producer, whose sequences are the positions of the messages in the input, from 1 on."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._submitted = 0

    def submit_many(self, payloads: Sequence[bytes | None], **options: Any) -> Pending:
        first = self._submitted + 1
        self._submitted += len(payloads)
        return _NewIds(self._producer.submit_many(payloads, first_sequence=first, **options))


class _NewIds:
    """The ids of what a run has appended, without what was in the log before."""

    def __init__(self, pending: PendingAppend[Appended]) -> None:
        self._pending = pending
        self.done = pending.done

    def result(self) -> Sequence[MessageId]:
        return self._pending.result().new_ids


class _Run:
    """A run from before its submission until its outcome is counted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pending: Pending | None = None
        """None while it is being submitted: an interrupted submission may have queued it."""


class _Outcomes(NamedTuple):
    """Outcomes of all runs up to `run`."""

    acknowledged: int = 0
    earlier: int = 0
    """Number of messages that were in the log before."""
    unknown: int = 0
    """Number of messages that may have been appended: they were in flight when the writer lost the log."""
    first: MessageId | None = None
    last: MessageId | None = None
    run: _Run | None = None


class Acknowledged:
    """Counts messages as they become durable, in the order in which they were submitted.

    Invariant: wherever Ctrl-C interrupts, a run that may have been submitted is counted exactly once. It is among
    `_runs` before its submission, and its outcome and the fact that it is counted are stored by one assignment.
    """

    def __init__(self) -> None:
        self.refusal: Callable[[], LogStoreError | None] = lambda: None
        """Why nothing more can be appended, once the writer is known."""
        self._outcomes = _Outcomes()
        self._runs: deque[_Run] = deque()

    def submit(self, count: int, submission: Callable[[], Pending]) -> None:
        """Submit a run of `count` messages. An error of the submission means that the run is absent."""
        run = _Run(count)
        self._runs.append(run)
        try:
            run.pending = submission()
        except LogStoreError:
            self._runs.pop()
            raise

    def collect(self, leave: int) -> None:
        """Count what is acknowledged; wait until at most `leave` runs are in flight."""
        while self._runs and (pending := self._runs[0].pending) is not None:
            if len(self._runs) <= leave and not pending.done():
                break
            self._count_first(pending.result())

    def check(self) -> None:
        """Count what is acknowledged, without waiting.

        Raises the error of a run that failed, or of a writer that has lost the log: it is of no use to wait for input.
        """
        self.collect(len(self._runs))
        if (refusal := self.refusal()) is not None:
            raise refusal

    @property
    def in_flight(self) -> int:
        """Number of messages whose outcome `settle` would wait for."""
        return sum(run.count for run in self._runs if run.pending is not None and not run.pending.done())

    def settle(self) -> None:
        """Wait for the outcome of every run in flight. Raises nothing: failures are counted."""
        while self._runs:
            run = self._runs[0]
            try:
                if run.pending is None:
                    self._count_first(unknown=run.count)
                else:
                    self._count_first(run.pending.result())
            except OutcomeUnknownError:
                self._count_first(unknown=run.count)
            except LogStoreError:
                self._count_first()

    def _count_first(self, ids: Sequence[MessageId] | None = None, *, unknown: int = 0) -> None:
        """Count the first run and remove it; `ids` of what it appended, None if it failed."""
        found, run = self._outcomes, self._runs[0]
        if run is not found.run:  # an interrupt may have come between counting and removal
            self._outcomes = _Outcomes(
                acknowledged=found.acknowledged + len(ids or ()),
                earlier=found.earlier + (0 if ids is None else run.count - len(ids)),
                unknown=found.unknown + unknown,
                first=ids[0] if ids and found.first is None else found.first,
                last=ids[-1] if ids else found.last,
                run=run,
            )
        self._runs.popleft()

    def summary(self, verb: str) -> str:
        found = self._outcomes
        verb_before = "was" if found.earlier == 1 else "were"
        before = f"; {found.earlier:,} {verb_before} in the log before" if found.earlier else ""
        if not found.acknowledged:
            return f"no messages were {verb}{before}"
        return f"{counted(found.acknowledged, 'message')} {verb}, {found.first} to {found.last}{before}"

    def early_end(self) -> str:
        """The summary after a failure: what is acknowledged, and how many more may have been appended."""
        found = self._outcomes
        unknown = found.unknown + sum(run.count for run in self._runs if run is not found.run)
        if unknown:
            more = f"; {unknown:,} more may or may not have been appended"
        else:
            more = "" if found.acknowledged else "; the log was taken over"
        return self.summary("acknowledged") + more


def register(app: typer.Typer) -> None:
    app.command()(append)


def append(
    log: LogName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to read, or - for stdin.")] = "-",
    form: Format = InputFormat.LINES,
    gzipped: Gzip = False,
    key: Key = None,
    key_delimiter: KeyDelimiter = None,
    key_column: KeyColumn = None,
    payload_column: PayloadColumn = None,
    columns: CsvColumns = Columns.ROW,
    header: Header = None,
    tombstones: Tombstones = False,
    producer: ProducerName = None,
    codec: Compression = CodecName.NONE,
    create: Create = False,
    wait_for_owner: WaitForOwner = None,
    given_up: GivenUp = None,
    timeout_s: Timeout = TIMEOUT_S,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Append messages from a file or stdin.

    Each line is a message, unless --format says otherwise. --format messages reads what `dlog read -o json` prints.
    With --producer the same command on the same input appends what is still missing: a message's position in the input
    is its sequence number. Takes the log over: its current writer is fenced, or with --wait-for-owner asked first.
    Prints the first and the last message id once all messages are durable.
    """
    if producer is not None:
        check_log_name(producer)  # before the takeover
    options = InputOptions(
        form=form,
        key=None if key is None else os.fsencode(key),
        key_delimiter=None if key_delimiter is None else delimiter_bytes(key_delimiter),
        key_column=key_column,
        payload_column=payload_column,
        columns=columns,
        headers=parsed_headers(header or []),
        tombstones=tombstones,
    )
    with opened_input(file) as (source, size), ExitStack() as bar:
        acknowledged = Acknowledged()
        chunks = chunks_of(source, bar.enter_context(progress(size)), acknowledged.check)
        groups = read_messages(decompressed(chunks) if gzipped or file.endswith(".gz") else chunks, options)
        runs = _runs(groups) if size is None else _begun(_runs(groups))
        with (
            connect(metadata, namespace, _config(timeout_s, codec)) as client,
            client.open_writer(
                log,
                create=create,
                wait_for_current_owner=wait_for_owner,
                given_up=[LedgerId(one) for one in given_up or []],
            ) as writer,
            _after_takeover(),
        ):
            acknowledged.refusal = lambda: writer.refusal
            appender = writer if producer is None else SequencedRuns(writer.producer(producer))
            _append_all(runs, appender.submit_many, acknowledged, writer.abort)
            bar.close()  # while it is shown, what is printed goes to its terminal, even if stdout is another file
            _print_summary(acknowledged.summary("appended"))


def _print_summary(summary: str) -> None:
    """On stderr if stdout cannot be written: a command that only fails is taken for one that has appended nothing."""
    try:
        print(summary, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        say("dlog", summary)
        raise


def _config(timeout_s: float, codec: CodecName) -> LogConfig:
    from dlog.config import LogConfig
    from dlog.format.entry import Codec

    if not 0 < timeout_s < math.inf:
        raise ConfigurationError(f"--timeout must be a positive number of seconds, got {timeout_s:g}")
    return LogConfig(hold_limit_s=timeout_s, takeover_timeout_s=timeout_s, codec=Codec[codec.name])


def _begun(runs: Iterator[Group]) -> Iterator[Group]:
    """The same runs, the first already parsed, so that a file that cannot be appended fails before the takeover.

    Not for stdin, which may be silent for hours.
    """
    return chain(list(islice(runs, 1)), runs)


@contextmanager
def _after_takeover() -> Iterator[None]:
    """Wrong usage is a part done from here on.

    The exit code of wrong usage promises that nothing was done, so that a script may correct and repeat it; here the
    log's writer is fenced, the log may have been made, and messages may have been appended.
    """
    try:
        yield
    except ConfigurationError as error:
        raise DoneInPart(str(error)) from error


def _append_all(
    runs: Iterable[Group],
    submit_many: Callable[..., Pending],
    acknowledged: Acknowledged,
    abort: Callable[[], None],
) -> None:
    """Append everything; if it ends early, print what was appended."""
    try:
        for run in runs:
            keys, payloads, headers = zip(*run, strict=True)
            submission = partial(submit_many, payloads, keys=keys, headers=headers if any(headers) else None)
            acknowledged.submit(len(run), submission)
            acknowledged.collect(PENDING_MAX)
        acknowledged.collect(0)
    except (KeyboardInterrupt, LogStoreError, OSError) as error:
        try:
            if isinstance(error, KeyboardInterrupt) and (waits_for := acknowledged.in_flight):
                say(
                    "dlog",
                    f"waiting for the outcome of {counted(waits_for, 'message')}; Ctrl-C again: stop without it",
                )
            acknowledged.settle()
        except KeyboardInterrupt:
            abort()  # closing the writer would wait for the same runs
            raise
        finally:
            say("dlog", f"stopped early: {acknowledged.early_end()}")
        raise


def _runs(groups: Iterable[Group]) -> Iterator[Group]:
    """Groups split into runs that fit into one entry.

    Raises:
        MessageTooLargeError: a message fits into no entry. It is raised before that message is submitted, since the
            messages after it must not be appended without it.
    """
    from dlog.config import LogConfig
    from dlog.format.message import NO_HEADERS, message_bytes

    entry_bytes_max = LogConfig().batching.entry_bytes_max
    number = 0
    for group in groups:
        run: Group = []
        run_bytes = 0
        for message in group:
            number += 1
            flat = tuple(chain.from_iterable(message.headers)) if message.headers else NO_HEADERS
            size = message_bytes(message.key, message.payload, flat)
            if run and (len(run) == RUN_MESSAGES or run_bytes + size > RUN_BYTES):
                yield run
                run, run_bytes = [], 0
            if size > RUN_BYTES:
                _check_size(number, size, entry_bytes_max)
            run.append(message)
            run_bytes += size
        if run:
            yield run


def _check_size(number: int, message_bytes: int, entry_bytes_max: int) -> None:
    from dlog.format.entry import ENTRY_OVERHEAD_BYTES

    size = message_bytes + ENTRY_OVERHEAD_BYTES
    if size > entry_bytes_max:
        raise MessageTooLargeError(
            f"message {number} of the input needs an entry of {size} bytes, the limit is {entry_bytes_max}: split it",
            entry_bytes=size,
            entry_bytes_max=entry_bytes_max,
        )
