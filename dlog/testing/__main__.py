"""`python -m dlog.testing`: see runner.py."""

from dlog.testing.runner import main

if __name__ == "__main__":
    raise SystemExit(main())
