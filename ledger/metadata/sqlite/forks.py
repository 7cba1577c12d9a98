"""No fork in the middle of a SQLite call.

SQLite keeps the locks of its process in memory, next to those that the kernel holds. A child inherits only what is in
memory: forked while another thread is in a transaction, it counts a lock as held that the kernel does not give it.
Then it reads halves of commits, can never write, and keeps other processes from writing.

Invariant: NO_FORK is held during each call of SQLite, and by a forking thread during the fork. Reentrant: a call
may contain another one, and the thread that calls may itself fork.
"""

from __future__ import annotations

import os
import threading

NO_FORK = threading.RLock()
"""One for the process: a fork concerns each of its files."""

# The methods themselves, not functions of ours: a signal handler that raises between two lines of Python would leave
# the lock held for good. If it raises while `acquire` waits, Python reports that, forks, and reports two releases.
os.register_at_fork(before=NO_FORK.acquire, after_in_parent=NO_FORK.release, after_in_child=NO_FORK.release)
