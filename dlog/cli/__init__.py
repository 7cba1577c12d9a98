"""The `dlog` command. One module a command group; heavy imports happen inside the commands."""
