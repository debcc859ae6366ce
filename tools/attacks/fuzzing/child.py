"""The process in which targets are tried: python child.py FOLDER TARGET,... ARGUMENTS_OF_LIBFUZZER...

Each target is a fork, so that simindex is instrumented once, and libFuzzer may end the process: 0, all runs
done; else a finding, which it has written down. FOLDER/TARGET/told has what a fork tells, `status` its end.
"""

import os
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # Python may have been told not to


def main() -> None:
    folder, names, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["simindex", "attacks"]):
        if names == "control":  # needs no simindex
            from attacks.fuzzing import control

            targets = control.TARGETS
        else:
            from attacks.fuzzing import compiled, read, stored

            targets = stored.TARGETS | read.TARGETS | compiled.TARGETS
    for name in names.split(","):
        place = Path(folder, name)
        fork = os.fork()
        if not fork:
            told = os.open(place / "told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(told, 1)
            os.dup2(told, 2)
            check, make_seeds = targets[name]
            for number, seed in enumerate(make_seeds()):
                Path(place, "seeds", f"{number}").write_bytes(seed)
            filled = [argument.replace("TARGET", name) for argument in arguments]
            atheris.Setup([sys.argv[0], *filled], lambda data: check(data.ljust(4, b"\0")))  # noqa: B023
            atheris.Fuzz()
        (place / "status").write_text(str(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])))


if __name__ == "__main__":
    main()
