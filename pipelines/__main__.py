"""``phaseledger`` and ``python -m pipelines``."""

import sys

from pipelines.cli import command


def main() -> None:
    """Run the command; the exit code is the process's."""
    sys.exit(command.main(prog_name="phaseledger", standalone_mode=True))


if __name__ == "__main__":
    main()
