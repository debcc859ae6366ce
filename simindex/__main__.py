"""`python -m simindex`: the same as the `simindex` command."""

from simindex.cli import main

if __name__ == "__main__":
    main()
