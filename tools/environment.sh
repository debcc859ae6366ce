# Sourced by the tools: finds Python and a compiler, and makes a virtual environment with this checkout in it.
#
#   make_environment FOLDER EXTRA   creates or updates FOLDER and installs '.[EXTRA]' into it

find_python() {
    local python
    for python in python3.14 python3.13 python3.12 python3.11 python3 python; do
        if command -v "$python" >/dev/null 2>&1 &&
            "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    echo "simindex needs Python 3.11 or newer with its venv module" >&2
    return 1
}

need_system_packages() {
    if { command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1; } && find_python >/dev/null 2>&1; then
        return
    fi
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        apt-get update -qq
        apt-get install -y -qq gcc libc6-dev python3 python3-dev python3-venv >/dev/null
    else
        echo "simindex builds a C extension: install a C compiler and Python's headers first" >&2
        return 1
    fi
}

make_environment() {
    local folder=$1 extra=$2
    need_system_packages
    if [ ! -x "$folder/bin/python" ]; then
        "$(find_python)" -m venv "$folder"
    fi
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip setuptools wheel
    # What an earlier build left there would be installed again: modules, too, that have gone since.
    rm -rf build/lib* build/bdist*
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check ".[$extra]"
}
