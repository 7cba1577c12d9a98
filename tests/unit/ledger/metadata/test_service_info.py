"""What bookies publish, against Apache's own values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import MetadataFormatError
from ledger.metadata.format.service_info import (
    Endpoint,
    ServiceInfo,
    bookie_info,
    decode_service_info,
    encode_service_info,
    published,
)
from ledger.model import BookieId, BookieInfo
from tests.helpers.metadata import vectors

REGISTRATIONS = [
    (data, node["decoded"]) for path, data, node in vectors.nodes() if "/available/" in path and data
]
SAMPLE = bytes.fromhex("32210a06626f6f6b696510ed181a0831302e302e302e31220a626f6f6b69652d727063")
INFO = BookieInfo(bookie_id=BookieId("b1"), host="10.0.0.1", port=3181)


@pytest.mark.parametrize(("data", "decoded"), REGISTRATIONS)
def test_apaches_registrations_both_ways(data: bytes, decoded: dict[str, list[dict[str, object]]]) -> None:
    info = decode_service_info(data)
    assert encode_service_info(info) == data
    for endpoint, wanted in zip(info.endpoints, decoded["endpoints"], strict=True):
        assert (endpoint.id, endpoint.port, endpoint.host, endpoint.protocol) == (
            wanted["id"],
            wanted["port"],
            wanted["host"],
            wanted["protocol"],
        )
        assert list(endpoint.extensions) == wanted.get("extensions", [])


def test_an_independent_encoding() -> None:
    assert published(INFO) == SAMPLE
    assert bookie_info(BookieId("b1"), SAMPLE, read_only=False) == INFO


def test_properties_keep_their_order() -> None:
    info = ServiceInfo((), (("z", "1"), ("a", "2")))
    assert decode_service_info(encode_service_info(info)) == info


def test_the_first_bookie_rpc_endpoint_counts() -> None:
    http = Endpoint(id="httpserver", port=8080, host="h", protocol="http")
    rpc = Endpoint(id="bookie", port=3181, host="r", protocol="bookie-rpc")
    found = bookie_info(BookieId("x"), encode_service_info(ServiceInfo((http, rpc))), read_only=True)
    assert (found.host, found.port, found.read_only) == ("r", 3181, True)


def test_without_data_the_id_is_the_address() -> None:
    found = bookie_info(BookieId("10.0.0.7:3181"), b"", read_only=False)
    assert (found.host, found.port) == ("10.0.0.7", 3181)


@pytest.mark.parametrize("bookie_id", ["named", "h:", ":1", "h:0", "h:65536", "h:1x", "h:999999999"])
def test_an_id_that_is_no_address_is_refused_without_data(bookie_id: str) -> None:
    with pytest.raises(MetadataFormatError):
        bookie_info(BookieId(bookie_id), b"", read_only=False)


@pytest.mark.parametrize("data", [b"\x32\x01", b"\x32\x00", SAMPLE[:-1], b"\xff" * 10, bytes(70_000)])
def test_malformed_values_are_refused(data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        bookie_info(BookieId("named"), data, read_only=False)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_never_surprise(data: bytes) -> None:
    try:
        decode_service_info(data)
    except MetadataFormatError:
        return


def test_every_bit_flip_gives_a_value_or_a_clean_error() -> None:
    for position in range(len(SAMPLE)):
        for bit in range(8):
            damaged = bytearray(SAMPLE)
            damaged[position] ^= 1 << bit
            try:
                bookie_info(BookieId("h:1"), bytes(damaged), read_only=False)
            except MetadataFormatError:
                continue
