"""Decompresses gzip input chunk by chunk, in bounded memory. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from ledger.errors import ConfigurationError

OUTPUT_BYTES = 1 << 20
"""Largest chunk that is returned: a small input may decompress to a thousand times its size."""
_GZIP = 31
"""zlib's `wbits` for a gzip header and trailer, whose CRC and length it checks."""


def decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The decompressed bytes. Several gzip members follow each other as one stream, as `cat a.gz b.gz` makes them.

    Raises:
        ConfigurationError: the input is not gzip, is damaged, or ends inside a member.
    """
    member = zlib.decompressobj(_GZIP)
    began = False
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                if member.eof:
                    rest = rest.lstrip(b"\0")  # padding to the block size of a tape
                    if not rest:
                        break
                    member = zlib.decompressobj(_GZIP)
                began = True
                if output := member.decompress(rest, OUTPUT_BYTES):
                    yield output
                rest = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error as error:
        raise ConfigurationError(f"the input is not gzip, or is damaged: {error}") from error
    if began and not member.eof:
        raise ConfigurationError("the input ends inside a gzip member: it was cut off")
