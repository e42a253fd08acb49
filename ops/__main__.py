"""`python -m sluicegate.ops` is `sluice`."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="sluice")
