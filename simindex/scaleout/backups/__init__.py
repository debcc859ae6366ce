"""Backups in a store: sealed segments once each, what changes in parts, and a journal of the commits since.

A backup is of one index, an ordinary one or a partition of many. Nothing in a store is changed in place:
parts are named by their content, and a manifest that names the parts is exchanged last. So whatever is
killed, the store holds the old backup or the new one.

    report     what calls tell
    cutting    small databases -> parts
    uploads    parts -> objects, some at once
    job        a backup
    journal    commits since the backup, an object each
    restoring  a store -> an index
"""

from simindex.scaleout.backups.job import backup_index
from simindex.scaleout.backups.report import RestoreReport, StoreBackupReport
from simindex.scaleout.backups.restoring import restore_index

__all__ = ["RestoreReport", "StoreBackupReport", "backup_index", "restore_index"]
