"""multiRead, by bytes that went to ZooKeeper 3.9 and came from it."""

from __future__ import annotations

import pytest
from kazoo.exceptions import MarshallingError, NoAuthError, NoNodeError, ZookeeperError

from ledger.metadata.zookeeper.session.multi_read import MultiRead

PATHS = ("/a", "/b", "/missing", "/secret")
REQUEST = bytes.fromhex(
    "0000000400ffffffff000000022f6100"
    "0000000400ffffffff000000022f6200"
    "0000000400ffffffff000000082f6d697373696e6700"
    "0000000400ffffffff000000072f73656372657400"
    "ffffffff01ffffffff"
)
A = bytes.fromhex(
    "000000040000000000" "00000003" "74776f"
    "00000000000000020000000000000003000001a2105ef14e000001a2105ef153"
    "000000010000000000000000000000000000000000000003000000000000000000000002"
)  # fmt: skip
B = bytes.fromhex(
    "000000040000000000" "00000000"
    "00000000000000040000000000000004000001a2105ef154000001a2105ef154"
    "000000000000000000000000000000000000000000000000000000000000000000000004"
)  # fmt: skip
MISSING = bytes.fromhex("ffffffff00ffffff9bffffff9b")
SECRET = bytes.fromhex("ffffffff00ffffff9affffff9a")
END = bytes.fromhex("ffffffff01ffffffff")
RESPONSE = A + B + MISSING + SECRET + END


def test_the_request() -> None:
    assert MultiRead(PATHS).serialize() == REQUEST
    assert MultiRead.type == 22
    assert MultiRead(()).serialize() == END


def test_each_node_has_its_result() -> None:
    a, b, missing, secret = MultiRead(PATHS).deserialize(b"header" + RESPONSE, len(b"header"))
    assert (a, b) == ((b"two", 1), (b"", 0))
    assert isinstance(missing, NoNodeError) and isinstance(secret, NoAuthError)
    assert MultiRead(()).deserialize(END, 0) == []


def test_a_node_without_a_value() -> None:
    without = B[:9] + b"\xff" * 4 + B[13:]
    assert MultiRead(("/b",)).deserialize(without + END, 0) == [(b"", 0)]


def test_an_error_that_is_not_known_is_an_error_of_its_node() -> None:
    a, unknown = MultiRead(("/a", "/x")).deserialize(A + MISSING[:9] + b"\0\0\0\x4d" + END, 0)
    assert a == (b"two", 1)
    assert isinstance(unknown, ZookeeperError) and "77" in str(unknown)


@pytest.mark.parametrize("length", range(len(RESPONSE)))
def test_a_response_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(MarshallingError):
        MultiRead(PATHS).deserialize(RESPONSE[:length], 0)


@pytest.mark.parametrize(
    "response",
    [
        A + B + MISSING + END,
        A + RESPONSE,
        RESPONSE + b"\0",
        A + B + MISSING + b"\0\0\0\x0e" + SECRET[4:] + END,
        A[:9] + b"\x7f" + A[10:] + B + MISSING + SECRET + END,
        A[:9] + b"\xff\xff\xff\xfe" + A[13:] + B + MISSING + SECRET + END,
    ],
    ids=["too few", "too many", "bytes after it", "another type", "long value", "negative length"],
)
def test_what_is_no_answer_to_the_request_is_refused(response: bytes) -> None:
    with pytest.raises(MarshallingError):
        MultiRead(PATHS).deserialize(response, 0)
