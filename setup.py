"""The name of a wheel: one for every CPython from 3.11 on; without the GIL there is no limited API yet."""

import sysconfig

from setuptools import setup

limited = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"bdist_wheel": {"py_limited_api": "cp311"}}
setup(options=limited)
