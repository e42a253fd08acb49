"""`sluice`: one command with the rest beneath it, each loaded only when it is called.

Nothing but click is needed for that, so that `sluice --help` answers at once and in a backend's
environment, where neither torch nor vLLM is.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any, Final

INTERRUPTED: Final = 130  # what a shell says of a program ended by Ctrl-C

try:
    import click

    from .lazy_group import LazyGroup
except KeyboardInterrupt:  # most of the time until `main` goes by here
    raise SystemExit(INTERRUPTED) from None

# name → what it does. The code of `name` is the attribute `command` of the module `cmd_<name>`.
COMMANDS: Final[dict[str, str]] = {
    "worker": "Take jobs, generate text, publish results.",
    "checker": "Judge whole texts on the CPU; have the rejected ones generated anew.",
    "agent": "Run agent jobs: models with tools, watched and bounded.",
    "submit": "Publish jobs, and wait for their results.",
    "watch": "Follow one job as it happens.",
    "cancel": "Call jobs off.",
    "pause": "Have services take nothing more for a while; print what is paused.",
    "resume": "Lift a pause.",
    "top": "Show queues, workers, gates and trouble, live.",
    "dlq": "See why jobs died; send them back, or clear them away.",
    "report": "Write one HTML page about results, dead letters and a time span.",
    "results": "Take the results that wait on a reply queue.",
    "doctor": "Look at everything that bites, and say what to do about it.",
    "topology": "Create, compare or print the exchanges and queues.",
    "schema": "Print the JSON Schema of the messages.",
    "config": "Print the settings in force, or a template for a file.",
    "tokens": "Print the token ids that a model must never produce, and why.",
    "evaluate": "Judge labelled texts with the gates; print what they miss and what they harm.",
    "calibrate": "Set the thresholds of the checks by labelled texts.",
    "demo": "Run the whole way of a job on this machine.",
}

EPILOG: Final = """\
\b
Examples:
  sluice demo                                      everything, once, on this machine
  sluice topology apply                            prepare a broker
  sluice worker --model Qwen/Qwen3-0.6B            serve it
  sluice submit --prompt "Why is the sky blue?" --wait
  sluice submit --file jobs.jsonl --out results.jsonl
  sluice agent submit --task "Compare Paris and Lima" --tool lookup --wait
  sluice results                                   what came back for jobs that nobody awaited
  sluice config show                               what is in force, and from where

\b
Settings come from, in rising strength: the built-in default, a TOML file, the
environment variable SLUICE_<NAME>, the flag --<name>. The most wanted:
  SLUICE_AMQP_URL        where RabbitMQ is (keeps the password off the command line)
  SLUICE_MODEL           the model's folder or hub name
  SLUICE_CONFIG          the file; otherwise ./sluice.toml, /etc/sluicegate/sluice.toml
  SLUICE_DEBUG=1         tracebacks where something fails
`sluice worker --help` lists every one.

\b
Exit status: 0 done; 1 the work failed or a difference was found; 2 bad usage or
input; 3 can't start (broker, topology, model); 4 a worker lost its engine, or a
checker's batch is stuck: start it afresh; 5 a worker has no engine that works and
gave up: see to it first; 130 interrupted.
"""


class Program(LazyGroup):
    """`sluice` itself."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """The program as a whole."""
        _open_what_is_closed()
        return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """The one place where an error becomes a line on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            from .plain_text import plain  # noqa: PLC0415  only errors need it
            from .redaction import redact  # noqa: PLC0415

            # It quotes what was said. click means the attribute to stay; its text is all there is.
            error.message = plain(redact(error.message))  # pyright: ignore[reportAttributeAccessIssue]
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click's own, and a reader who has had enough: click ends both in good order
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            from .failures import report  # noqa: PLC0415  it knows every error, so it loads a lot

            ctx.exit(report(error, debug=bool(ctx.params.get("debug"))))


def _open_what_is_closed() -> None:
    """Give a program that was started without stdin, stdout or stderr empty ones.

    Python has None in their place, and the next file or socket would get the number of the closed
    one, and with it whatever is printed.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # As a rule it gets the lowest free number, which is the closed one's.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


@click.group(
    cls=Program,
    there=COMMANDS,
    prefix="cmd_",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read the settings from this TOML file. [env: SLUICE_CONFIG]",
)
@click.option(
    "--debug",
    is_flag=True,
    envvar="SLUICE_DEBUG",
    help="Show a traceback where something fails. [env: SLUICE_DEBUG]",
)
@click.version_option(package_name="sluicegate", message="sluice %(version)s")
def main(config_file: Path | None, debug: bool) -> None:
    """Generate text with LLMs, job by job, and lose none.

    Backends publish jobs to RabbitMQ, workers run them on vLLM, and each job comes back with an
    outcome: completed, partial, rejected, expired, cancelled or failed.
    """
    del config_file  # read from the context, by `option_flags`
    if not debug:
        # They log what they raise as well, and a terminal should say it once.
        for name in ("aiormq", "aio_pika"):
            logging.getLogger(name).addHandler(logging.NullHandler())
