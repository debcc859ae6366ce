"""Where partitions lie: a host opens those of one place, and answers for them.

`Host` is a plain class, and is tested as one; `actors` makes it an actor of Ray, and carries the calls.
"""
