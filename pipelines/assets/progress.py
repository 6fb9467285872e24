"""One line per finished step on standard error, instead of Dagster's event log."""

import logging
import sys
import time

import dagster as dg


class _StepLines(logging.Handler):
    """Prints a step when it ends, with its duration; failures as they come."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(logging.DEBUG)
        self._quiet = quiet
        self._started = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record if it ends a step, or is what an asset says; if quiet, only its warnings."""
        meta = getattr(record, "dagster_meta", {})
        event = meta.get("dagster_event")
        if event is not None and event.event_type_value == "STEP_SUCCESS" and not self._quiet:
            elapsed = time.monotonic() - self._started
            sys.stderr.write(f"  {elapsed:5.1f} s  {event.step_key.replace('__', '/')}\n")
        elif event is None and record.levelno >= (logging.WARNING if self._quiet else logging.INFO):
            sys.stderr.write(f"  {meta.get('orig_message', record.getMessage())}\n")


@dg.logger(
    config_schema={"quiet": dg.Field(bool, default_value=False, description="show warnings only")},
    description="One line per finished step.",
)
def step_progress(context: dg.InitLoggerContext) -> logging.Logger:
    """A logger that shows progress only."""
    logger = logging.Logger("phaseledger", logging.DEBUG)
    logger.addHandler(_StepLines(quiet=context.logger_config["quiet"]))
    return logger
