"""Coverage-guided fuzzing, a room of tools/attacks: what is tried, and the process in which it is."""
