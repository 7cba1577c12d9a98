"""How we know that it works: what was run, what came of it, and the page that tells it."""
