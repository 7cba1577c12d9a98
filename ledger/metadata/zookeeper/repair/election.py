"""The election of the auditor, as BookKeeper holds it: the lowest vote `auditorelection/V_<number>` wins.

The winner writes its name into `auditorelection` too, which BookKeeper does for people to read.
"""

from __future__ import annotations

import re

from kazoo.exceptions import NoNodeError

from ledger.metadata.format.repair import encode_vote, shown_name
from ledger.metadata.watching import Unwatch, Watch
from ledger.metadata.zookeeper.cluster import children_quietly, create_quietly
from ledger.metadata.zookeeper.repair.tree import RepairTree
from ledger.metadata.zookeeper.session.watches import Watches

_VOTE = re.compile(r"V_(-?[0-9]+)")


class Election:
    def __init__(self, tree: RepairTree, watches: Watches) -> None:
        self.tree = tree
        self.session = tree.session
        self.watches = watches
        self.path = f"{tree.paths.under_replication}/auditorelection"

    async def votes(self) -> list[str]:
        """Names of the votes, the winner's first."""
        names = await children_quietly(self.session, self.path)
        return sorted((name for name in names if _VOTE.fullmatch(name)), key=_number)

    async def auditor(self) -> str | None:
        for vote in await self.votes():
            try:
                data, _ = await self.session.get(f"{self.path}/{vote}")
            except NoNodeError:
                continue
            return shown_name(bytes(data))
        return None

    async def stand(self, name: str) -> ZooKeeperCandidacy:
        candidacy = ZooKeeperCandidacy(self, encode_vote(name))
        await candidacy.is_elected()
        return candidacy


class ZooKeeperCandidacy:
    """A vote of this session; one more is made once that is gone. A vote whose answer was lost may stand beside it
    until the session ends: all votes of the session count as ours."""

    def __init__(self, election: Election, vote: bytes) -> None:
        self._election = election
        self._session = election.session
        self._vote = vote

    async def is_elected(self) -> bool:
        votes = await self._election.votes()
        own = await self._own(votes)
        if not own:
            await self._election.tree.change("the auditor's election", self._cast_vote)
            votes = await self._election.votes()
            own = await self._own(votes)
        elected = bool(own) and votes[0] in own
        if elected:
            await self._announce()
        return elected

    async def _cast_vote(self) -> None:
        await create_quietly(self._session, self._election.path)
        path = f"{self._election.path}/V_"
        await self._session.create(path, self._vote, ephemeral=True, sequence=True)

    async def _own(self, votes: list[str]) -> set[str]:
        """Those of this session."""
        found = set()
        for vote in votes:
            stat = await self._session.exists(f"{self._election.path}/{vote}")
            if stat is not None and stat.ephemeralOwner == self._session.session_id:
                found.add(vote)
        return found

    async def _announce(self) -> None:
        try:
            data, _ = await self._session.get(self._election.path)
            if bytes(data) != self._vote:
                await self._session.set(self._election.path, self._vote)
        except NoNodeError:
            return

    def watch(self, watch: Watch) -> Unwatch:
        return self._election.watches.watch_children(self._election.path, watch)

    async def close(self) -> None:
        for vote in await self._own(await self._election.votes()):
            try:
                await self._session.delete(f"{self._election.path}/{vote}")
            except NoNodeError:
                continue


def _number(vote: str) -> int:
    return int(vote.removeprefix("V_"))
