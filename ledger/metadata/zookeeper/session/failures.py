"""What a failed request means: kazoo's errors and silence → our errors. Pure.

Whether a change was made decides: certainly not, or nobody knows. Errors that a caller expects stay kazoo's
own: that a node is there or missing, at another version, or not empty, and that the server does not know the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.exceptions import ConnectionLoss as ConnectionLostError

from ledger.errors import (
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    UnauthorizedError,
)
from ledger.metadata.zookeeper.address import ZooKeeperAddress
from ledger.metadata.zookeeper.session.kazoo_connection import OtherSessionError

ENDED_SESSION = "ended the session that this belonged to"

_EXPECTED = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError, UnimplementedError)
_BROKEN_OFF = (ConnectionLostError, SessionExpiredError)
_UNDECIDED = (OperationTimeoutError, RequestTimeoutError, RuntimeInconsistency)
"""Answers that do not say whether the change was made."""


class Failures:
    def __init__(self, address: ZooKeeperAddress) -> None:
        self._servers = ", ".join(address.servers)
        self._uri = address.uri
        self._auth_file = address.auth_file

    def of_answer(self, error: Exception, *, is_change: bool) -> Exception:
        """The error of a request that was sent."""
        if isinstance(error, _EXPECTED):
            return error  # type: ignore[no-any-return]  # kazoo has no types
        if isinstance(error, OtherSessionError):
            return self.unanswered(ENDED_SESSION, is_change=False)
        if isinstance(error, NoAuthError):
            return self._no_access()
        if isinstance(error, AuthFailedError):
            return self.refused()
        if isinstance(
            error, SessionClosedRequireSaslError
        ):  # whatever the scheme is that the server requires
            return self.must_authenticate()
        if isinstance(error, _BROKEN_OFF):
            return self.unanswered("broke off the connection", is_change=is_change)
        if isinstance(error, ZookeeperError) and not isinstance(error, _UNDECIDED):
            return self.unanswered(f"refused with {error!r}", is_change=False)
        return self.unanswered(f"gave the answer {error!r}", is_change=is_change)

    def of_commit(self, errors: Sequence[Exception]) -> Exception:
        """Why several changes at once were refused, all of them.

        Only one of the errors tells why; those before it say that they were rolled back, and those after it,
        never tried, come as RuntimeInconsistency.
        """
        silent = (RolledBackError, RuntimeInconsistency)
        telling = [error for error in errors if not isinstance(error, silent)]
        why = (telling or errors)[0]
        if isinstance(why, NoAuthError):
            return self._no_access()
        return self.unanswered(f"refused with {why!r}", is_change=False)

    def unanswered(self, what: str, *, is_change: bool) -> LogStoreError:
        """`is_change`: the request may have changed something."""
        if is_change:
            return MetadataOutcomeUnknownError(
                f"ZooKeeper at {self._servers} {what} while a change was under way: read what became of it"
            )
        return MetadataUnavailableError(f"ZooKeeper at {self._servers} {what}: try again")

    def refused(self) -> LogStoreError:
        return UnauthorizedError(
            f"ZooKeeper at {self._servers} does not accept the credential of ?auth_file: correct the file"
        )

    def must_authenticate(self) -> LogStoreError:
        """The server answers the first request of a connection so, and closes it without a look at the others."""
        return UnauthorizedError(
            f"ZooKeeper at {self._servers} serves only clients that authenticate by a scheme that it requires "
            f"(SessionClosedRequireSasl): for digest name a file with user:password in the address, ?auth_file=FILE; "
            f"this client has neither SASL nor TLS"
        )

    def died(self) -> LogStoreError:
        return MetadataUnavailableError(
            f"the thread that connects to ZooKeeper at {self._servers} has died: open the store again, or restart "
            "this program"
        )

    def _no_access(self) -> LogStoreError:
        denied = f"ZooKeeper at {self._servers} denies access below {self._uri} (NoAuth)"
        if self._auth_file is not None:
            return UnauthorizedError(
                f"{denied}: the user:password in {self._auth_file} is not the owner's, correct it, or name another "
                "file in ?auth_file"
            )
        return UnauthorizedError(
            f"{denied}: name a file with the owner's user:password in the address, ?auth_file=FILE"
        )
