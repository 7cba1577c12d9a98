"""The processes of a swarm: writers, readers, witnesses, administrators and neighbours."""
