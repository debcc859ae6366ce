"""The attacks of tools/torture: each module is one of its commands."""
