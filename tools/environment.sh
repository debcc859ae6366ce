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
    if ! install_packages gcc libc6-dev python3 python3-dev python3-venv; then
        echo "simindex builds a C extension: install a C compiler and Python's headers first" >&2
        return 1
    fi
}

install_packages() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

# add_system_packages PACKAGE...   installs those that are missing; a package is named as its command. What needs one
# is left out where that cannot be done.
add_system_packages() {
    local each missing=()
    for each in "$@"; do command -v "$each" >/dev/null 2>&1 || missing+=("$each"); done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}" 2>/dev/null ||
        echo "not installed, and what needs it is left out: ${missing[*]}" >&2
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
    # Not compiled: of the test tools' 18,000 modules most are never imported, and to compile them all takes a minute.
    # setuptools calls the tables of pyproject.toml that describe the kernel experimental, six times an install.
    PYTHONWARNINGS='ignore:`[tool.' \
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile ".[$extra]"
}

# sanitized_environment FOLDER COMPILER FLAGS   makes an environment with the kernel built by it with these flags
sanitized_environment() {
    # A build folder of its own, or objects built without the sanitizers would be taken from build/.
    rm -rf "$1/build" "$1/reports"
    mkdir -p "$1/reports"
    printf '[build]\nbuild_base = %s\n' "$1/build" >"$1/build.cfg"
    CC=$2 CFLAGS="$3 -fno-omit-frame-pointer -g" LDFLAGS=$3 DIST_EXTRA_CONFIG=$1/build.cfg make_environment "$1" test
}

# Python is not built with the sanitizers, so their libraries come first by LD_PRELOAD, and libstdc++ for the
# exceptions that they watch.
sanitizer_libraries() {
    local name
    for name in "$@" libstdc++.so.6; do gcc -print-file-name="$name"; done | paste -sd:
}

# judge_reports FOLDER STATUS   a child process that a test expects to die may die of a report unseen: its file tells
judge_reports() {
    if [ -n "$(ls -A "$1/reports")" ]; then
        cat "$1/reports"/* >&2
        echo "the sanitizers reported $(ls -A "$1/reports" | wc -l) processes" >&2
        return 1
    fi
    return "$2"
}

# run_sanitized FOLDER ARGUMENTS...   python with ARGUMENTS, the kernel under AddressSanitizer and
#                                     UndefinedBehaviorSanitizer, in an environment of its own
run_sanitized() {
    local environment
    environment=$(mkdir -p "$1" && cd "$1" && pwd)
    shift
    sanitized_environment "$environment" gcc "-fsanitize=address,undefined -fno-sanitize-recover=all"
    under_sanitizers "$environment" "$(sanitizer_libraries libasan.so libubsan.so)" "$@"
}

# run_fuzzer FOLDER ARGUMENTS...   the same with a kernel whose branches lead Atheris: built by clang, and with the
#                                  sanitizers that come with Atheris, which hold libFuzzer
run_fuzzer() {
    local environment atheris
    environment=$(mkdir -p "$1" && cd "$1" && pwd)
    shift
    need_clang
    sanitized_environment "$environment" clang "-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all"
    atheris=$("$environment/bin/python" -c 'import atheris; print(atheris.path())')
    under_sanitizers "$environment" "$atheris/asan_with_fuzzer.so" "$@"
}

need_clang() {
    if command -v clang >/dev/null 2>&1; then
        return
    fi
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        apt-get update -qq
        apt-get install -y -qq clang >/dev/null
    else
        echo "a kernel that leads the fuzzer is built by clang: install it first" >&2
        return 1
    fi
}

# under_sanitizers ENVIRONMENT LIBRARIES ARGUMENTS...   its python with ARGUMENTS, and what the sanitizers reported
under_sanitizers() {
    local result=0
    # Python leaks on purpose at its end; its own allocator would hide overruns.
    LD_PRELOAD=$2 PYTHONMALLOC=malloc \
        ASAN_OPTIONS="detect_leaks=0:malloc_context_size=1:quarantine_size_mb=64:log_path=$1/reports/address" \
        UBSAN_OPTIONS="print_stacktrace=1:log_path=$1/reports/undefined" \
        "$1/bin/python" "${@:3}" || result=$?
    judge_reports "$1" "$result"
}

# run_with_thread_sanitizer FOLDER ARGUMENTS...   python with ARGUMENTS, the kernel under ThreadSanitizer, once it
#                                                 has shown that it sees a race
run_with_thread_sanitizer() {
    local environment result=0
    environment=$(mkdir -p "$1" && cd "$1" && pwd)
    shift
    sanitized_environment "$environment" gcc -fsanitize=thread
    watched() {
        LD_PRELOAD=$(sanitizer_libraries libtsan.so) \
            TSAN_OPTIONS="log_path=$environment/reports/thread:exitcode=0:die_after_fork=0:$1" \
            "$environment/bin/python" "${@:2}"
    }
    # It finds a race in moments, and tells each of thousands for minutes: the first is enough.
    watched halt_on_error=1 tools/attacks/race.py || true
    if ! grep -q "data race .*sort\.c" "$environment/reports"/* 2>/dev/null; then
        echo "ThreadSanitizer does not see the race of tools/attacks/race.py: its silence would show nothing" >&2
        return 1
    fi
    rm -f "$environment/reports"/*
    watched suppressions=$PWD/tools/attacks/race.suppressions "$@" || result=$?
    judge_reports "$environment" "$result"
}
