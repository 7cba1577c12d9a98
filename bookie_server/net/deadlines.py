"""When a silent or stalled peer is cut off. Pure; all times are the loop's, in seconds.

A peer is never blamed for a pause that is ours: while we hold its reading, only its own refusal to take
answers counts.

Pitfall: docs/pitfalls.md#stuck-or-flooding-peer.
"""

from __future__ import annotations

from dataclasses import dataclass

from bookie_server.config import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerActivity:
    """What is known of one connection at one moment."""

    has_spoken: bool
    """At least one complete frame has come."""
    partial_bytes: int
    """Bytes of a frame that is not complete."""
    idle: bool
    """Nothing of it is being worked on."""
    held: bool
    """We do not read from it at present."""
    crowds: bool
    """Its incomplete frame has a place in the receive budget, and others wait for one."""
    frame_started: float
    """When the last complete frame came, or when we began to read again."""
    last_received: float
    stalled_since: float | None
    """Since when it has taken none of its answers; None if there are none, or it takes them."""
    blocks_reads: bool
    """It holds answers for which the reads of others wait."""


def overdue(limits: Limits, now: float, peer: PeerActivity) -> str | None:
    """Why the connection must be closed, or None."""
    if peer.stalled_since is not None:
        stall_s = limits.crowded_stall_s if peer.blocks_reads else limits.send_stall_s
        if now - peer.stalled_since > stall_s:
            waited = ", and reads of others waited for it" if peer.blocks_reads else ""
            return f"read no response for {stall_s} s{waited}"
    if peer.held:
        return None
    if peer.partial_bytes and peer.crowds:
        grace_s = limits.crowded_frame_s + peer.partial_bytes / limits.crowded_frame_bytes_per_s
        silent_s = now - max(peer.last_received, peer.frame_started)
        if now - peer.frame_started > grace_s or silent_s > limits.crowded_silence_s:
            return f"did not complete a frame within {grace_s:.0f} s, while others waited for its memory"
    if peer.partial_bytes:
        grace_s = limits.frame_progress_s + peer.partial_bytes / limits.frame_bytes_per_s
        if now - peer.frame_started > grace_s:
            return f"did not complete a frame within {grace_s:.0f} s"
    elif not peer.has_spoken:
        if now - peer.last_received > limits.first_frame_s:
            return f"sent nothing for {limits.first_frame_s} s"
    elif peer.idle and now - peer.last_received > limits.idle_s:
        return f"was idle for {limits.idle_s} s"
    return None
