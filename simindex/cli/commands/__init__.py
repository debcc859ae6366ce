"""The commands, one file each: its function is `run`, its examples are `EXAMPLES`."""
