"""Processes killed with SIGKILL wherever it may hurt, and what must be there afterwards."""
