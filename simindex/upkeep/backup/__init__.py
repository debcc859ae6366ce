"""Backup: a copy of one committed state, made while the index is in use, and brought up to date later.

A copy by files would copy everything each time, and needs the writer to stand still. This one goes by what
the format promises: a sealed segment never changes. So segments go over one by one, each checked on its way,
and a later backup takes only those that are new; what is small and does change (records, marks, groups, ages)
is compared entry by entry.

    report      what a call tells
    target      where it goes: a new folder that is renamed at the end, or an older backup
    difference  which entries of a small database differ
    job         the copying
"""
