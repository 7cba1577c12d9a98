"""From an address to an open store: `memory:name`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `zk://…`.

Third parties add a scheme with `register_driver`. The part before the first `+` of a scheme picks the driver, the
rest is the driver's own (`zk+hierarchical://…`). Opening neither creates a store nor needs one to exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ledger.arguments import require_type
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import ConfigurationError
from ledger.metadata.store import MetadataStore
from ledger.metadata.uri import MetadataUri, check_options, parse_uri, without_password

Factory = Callable[[MetadataUri, Environment], Awaitable[MetadataStore]]


def register_driver(scheme: str, factory: Factory) -> None:
    """Open addresses `scheme:` and `scheme+anything:` with `factory`.

    Raises:
        ConfigurationError: `scheme` is not letters and digits, or `factory` cannot be called.
    """
    require_type("the scheme of metadata addresses", scheme, str)
    if not scheme.isalnum():
        raise ConfigurationError(f"scheme {scheme!r} is not valid: use letters and digits")
    if not callable(factory):
        raise ConfigurationError(f"the factory of scheme {scheme!r} must be a function, got {factory!r:.80}")
    _drivers[scheme] = factory


async def open_store(uri: str, environment: Environment | None = None) -> MetadataStore:
    """A handle on the store at `uri`. The caller closes it.

    Raises:
        ConfigurationError: no driver understands the address.
        MissingExtraError: the driver needs a package that is not installed.
    """
    parsed = parse_uri(uri)
    factory = _drivers.get(parsed.driver)
    if factory is None:
        raise ConfigurationError(
            f"metadata address {without_password(uri)!r} has the unknown scheme {parsed.scheme!r}, known are: "
            f"{', '.join(sorted(_drivers))}"
        )
    return await factory(parsed, environment or SystemEnvironment())


async def _open_memory(uri: MetadataUri, environment: Environment) -> MetadataStore:
    from ledger.metadata.memory import open_memory

    check_options(uri)
    return await open_memory(uri.rest, uri.query, environment)


async def _open_sqlite(uri: MetadataUri, environment: Environment) -> MetadataStore:
    from ledger.metadata.sqlite.store import open_sqlite

    check_options(uri)
    return await open_sqlite(uri.rest, uri.query, environment)


async def _open_zookeeper(uri: MetadataUri, environment: Environment) -> MetadataStore:
    from ledger.metadata.zookeeper.store import open_zookeeper

    return await open_zookeeper(uri, environment)


_drivers: dict[str, Factory] = {"memory": _open_memory, "sqlite": _open_sqlite, "zk": _open_zookeeper}
