"""Which operations succeed while bookies and the writer's process are down, and how long each takes."""
