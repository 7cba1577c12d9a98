"""`python -m bookie_server` is the `bookie` command."""

from bookie_server.cli import main

if __name__ == "__main__":
    main()
