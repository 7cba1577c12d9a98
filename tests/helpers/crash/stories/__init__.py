"""Random stories of a bookie's storage: what it is asked, when its power is cut, and what every boot must hold."""
