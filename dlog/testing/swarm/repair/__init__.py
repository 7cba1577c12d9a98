"""Processes of the swarm that repair, and that take bookies out of the cluster."""
