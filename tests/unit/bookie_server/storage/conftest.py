"""Makes a fixture of the helpers known to the tests here."""

from tests.helpers.bookie.both_storages import both_storages

__all__ = ["both_storages"]
