"""Protobuf text, read leniently but never surprisingly: malformed text raises MetadataFormatError only."""

from __future__ import annotations

import re

from google.protobuf import text_format
from google.protobuf.message import Message

from ledger.errors import MetadataFormatError

_ESCAPES = re.compile(
    r"""[^\\]*(?:\\(?:[abfnrtv\\'"?]|[0-3][0-7]{0,2}|[4-7][0-7]?(?![0-7])"""
    r"""|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})[^\\]*)*"""
)
"""The escapes of the text format. The library passes others on to Python, which only warns about them."""


def parse_text(text: str, message: Message, what: str) -> None:
    """Fill `message`; fields may come in any order and unknown ones are passed over."""
    if not _ESCAPES.fullmatch(text):
        raise MetadataFormatError(f"{what} has an escape that protobuf text does not know")
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:  # its text is about protobuf's descriptors
        place = (
            "" if error.GetLine() is None else f", from line {error.GetLine()}, column {error.GetColumn()} on"
        )
        raise MetadataFormatError(f"{what} is not protobuf text{place}") from error
    except RecursionError as error:
        raise MetadataFormatError(f"{what} is nested too deeply") from error
    if not message.IsInitialized():
        raise MetadataFormatError(f"{what} lacks a required field")


def print_text(message: Message) -> str:
    """As BookKeeper prints it: a field a line, in number order, each line ended."""
    return text_format.MessageToString(message)
