"""The process in which targets are tried: python child.py FOLDER TARGET,... SECONDS ARGUMENTS_OF_LIBFUZZER...

Each target is a fork, so that simindex is instrumented once, and libFuzzer may end the process: 0, all runs
done; else a finding, which it has written down. FOLDER/TARGET/told has what a fork tells, `status` its end.
SECONDS are of processor time, or 0 for no such end: libFuzzer's own limit is of the clock, which on a busy
machine is over before the first changed input.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # Python may have been told not to


def ended_behind(seconds: float, check: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Return a check that ends the process, as libFuzzer does, once it has had so much processor time."""
    end, runs = time.process_time() + seconds, 0

    def check_one(data: bytes) -> None:
        nonlocal runs
        check(data)
        runs += 1
        if time.process_time() >= end:
            told = f"Done {runs} runs in {seconds:.0f} second(s)\nstat::number_of_executed_units: {runs}\n"
            os.write(1, told.encode())
            os._exit(0)

    return check_one


def main() -> None:
    folder, names, seconds, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["simindex", "attacks"]):
        if names == "control":  # needs no simindex
            from attacks.fuzzing import control

            targets = control.TARGETS
        else:
            from attacks.fuzzing import compiled, read, stored

            targets = stored.TARGETS | read.TARGETS | compiled.TARGETS
    for name in names.split(","):
        work = Path(folder, name)
        fork = os.fork()
        if not fork:
            told = os.open(work / "told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(told, 1)
            os.dup2(told, 2)
            check, make_seeds = targets[name]
            for number, seed in enumerate(make_seeds()):
                Path(work, "seeds", f"{number}").write_bytes(seed)
            filled = [argument.replace("TARGET", name) for argument in arguments]
            tried = ended_behind(float(seconds), check) if float(seconds) else check
            atheris.Setup([sys.argv[0], *filled], lambda data: tried(data.ljust(4, b"\0")))  # noqa: B023
            atheris.Fuzz()
        (work / "status").write_text(str(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])))


if __name__ == "__main__":
    main()
