"""Makes a fixture of the helpers known to the tests here."""

from tests.helpers.bookie.both_storages import either_storage

__all__ = ["either_storage"]
