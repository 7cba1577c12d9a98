"""What a bookie answers: status codes of both protocols, and the three meanings they have. Pure.

The v2 numbers name a status in our code. docs/bookkeeper.md#error-codes; docs/pitfalls.md#unknown-counted-as-no.
"""

from enum import Enum, IntEnum

from ledger.errors import ProtocolError


class Status(IntEnum):
    """Answer of a bookie; the value is the v2 error code."""

    EOK = 0
    ENOLEDGER = 1
    ENOENTRY = 2
    EBADREQ = 100
    EIO = 101
    EUA = 102
    EBADVERSION = 103
    EFENCED = 104
    EREADONLY = 105
    ETOOMANYREQUESTS = 106
    EUNKNOWNLEDGERSTATE = 107


class Answer(Enum):
    """What an answer proves about an entry."""

    YES = "yes"
    PROVED_NO = "proved no"
    UNKNOWN = "unknown"


_TO_V3: dict[Status, int] = {
    Status.EOK: 0,
    Status.ENOLEDGER: 402,
    Status.ENOENTRY: 403,
    Status.EBADREQ: 404,
    Status.EIO: 501,
    Status.EUA: 502,
    Status.EBADVERSION: 503,
    Status.EFENCED: 504,
    Status.EREADONLY: 505,
    Status.ETOOMANYREQUESTS: 506,
    Status.EUNKNOWNLEDGERSTATE: 507,
}
_FROM_V2: dict[int, Status] = {int(status): status for status in Status}
_FROM_V3: dict[int, Status] = {code: status for status, code in _TO_V3.items()}

_ANSWERS = {
    Status.EOK: Answer.YES,
    Status.ENOENTRY: Answer.PROVED_NO,
    Status.ENOLEDGER: Answer.PROVED_NO,
}


def to_v3(status: Status) -> int:
    """The v3 code of `status`."""
    return _TO_V3[status]


def from_v3(code: int) -> Status:
    """The status behind a v3 code; ProtocolError for a number outside the protocol."""
    status = _FROM_V3.get(code)
    if status is None:
        raise ProtocolError(
            f"v3 status {code} is not one of the protocol's {len(_FROM_V3)} codes; drop the connection"
        )
    return status


def from_v2(code: int) -> Status:
    """The status behind a v2 code; ProtocolError for a number outside the protocol."""
    status = _FROM_V2.get(code)
    if status is None:
        raise ProtocolError(
            f"v2 status {code} is not one of the protocol's {len(_FROM_V2)} codes; drop the connection"
        )
    return status


def answer_of(status: Status) -> Answer:
    """Whether the entry is there, is proved absent, or nothing is known.

    Only a bookie that has proved absence says ENOENTRY or ENOLEDGER; whatever is not listed is unknown, so
    that a status added later can never truncate a ledger.
    """
    return _ANSWERS.get(status, Answer.UNKNOWN)
