"""`sluice submit`: publish one job, or a file of them, and wait for what becomes of them."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ..producer import GenerationJob, Reasoning, Sampling
from ..schemas.codec import encode
from ..worker.config import Config
from . import console, submit_prompt
from .effort import EFFORT
from .plain_text import escaped
from .reasoning_text import of_result
from .seconds import SECONDS
from .settings import ByTopic, option_flags
from .submit_batch import submit_file
from .submit_lines import parse_lines

WAIT_S: Final = 600.0
QUIET_LIMIT_S: Final = 3600.0
STDIN: Final = "-"


@click.command(name="submit", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s", "publish_timeout_s")
@click.option("--prompt", metavar="TEXT", help="What to answer; - reads it from standard input.")
@click.option(
    "--file",
    "file",
    metavar="FILE",
    help='Jobs as JSON Lines, {"prompt": "..."} for one; - reads standard input.',
)
@click.option(
    "--out",
    metavar="FILE",
    help="With --file: where results go, one a line in the order of the jobs. Start the same "
    "command again after it was interrupted, and it goes on. Default: standard output.",
)
@click.option("--wait", is_flag=True, help="Wait for the result and print its text.")
@click.option("--stream", is_flag=True, help="Wait, and print the text as it is generated.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    help=f"Give up waiting after this long [default: {WAIT_S:g}]; with --file, after this long "
    f"without any result [default: {QUIET_LIMIT_S:g}].",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    metavar="N",
    help="With --file: jobs that may be unfinished at once.",
)
@click.option(
    "--reply",
    metavar="KEY",
    help="With --prompt: the reply key of the result [default: a private queue with --wait, "
    "`default` without].",
)
@click.option("--id", "job_id", metavar="ID", help="With --prompt: the job's id.")
@click.option(
    "--lane",
    type=click.Choice(["interactive", "batch"]),
    help="Which queue. [default: interactive; with --file: batch]",
)
@click.option("--profile", metavar="NAME", help="The profile of the gates, such as chat or code.")
@click.option(
    "--effort",
    type=EFFORT,
    metavar="low|medium|high|max|N",
    help="How much may be thought before the answer; N tokens.",
)
@click.option(
    "--reasoning",
    "reasoning_mode",
    type=click.Choice(["off", "observe", "cut"]),
    help="The guard over the reasoning: none, one that writes down what it finds, one that acts.",
)
@click.option("--max-tokens", type=int, metavar="N", help="How many tokens to generate at most.")
@click.option("--temperature", type=float, metavar="NUMBER", help="0 is greedy.")
@click.option("--top-p", type=float, metavar="NUMBER")
@click.option("--top-k", type=int, metavar="N")
@click.option("--min-p", type=float, metavar="NUMBER")
@click.option("--repetition-penalty", type=float, metavar="NUMBER")
@click.option("--seed", type=int, metavar="N", help="The same seed, the same text.")
@click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text. Repeatable.")
@click.pass_context
def command(context: click.Context, /, config: Config, **said: Any) -> None:
    """Publish jobs, and wait for their results.

    Standard output gets the answer alone: what a model thinks before it goes to standard error, and
    so does, at the end, how much it was.

    With --file every line is checked first: where one is wrong, nothing is published. What a line
    leaves out is taken from the flags, then from the defaults; ids come from the content.

    \b
    Examples:
      sluice submit --prompt "Why is the sky blue?" --wait
      git diff | sluice submit --prompt - --stream --max-tokens 300
      sluice submit --prompt "Is 391 a prime?" --stream --effort low
      sluice submit --file jobs.jsonl --out results.jsonl --temperature 0
      jq -c '{prompt: .question}' faq.json | sluice submit --file - > answers.jsonl

    \b
    Exit status: 0 every job completed; 1 one was not; 2 bad usage or input, nothing published;
    3 no broker; 130 interrupted.
    """
    sampling = _given(
        said,
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "seed",
    )
    if said["stop"]:
        sampling["stop"] = list(said["stop"])
    reasoning = _given(said, "effort")
    if said["reasoning_mode"] is not None:
        reasoning["mode"] = said["reasoning_mode"]
    fields = _given(said, "lane", "profile")
    if (said["prompt"] is None) == (said["file"] is None):
        raise click.UsageError("say what to publish: either --prompt TEXT or --file FILE.")
    if said["file"] is not None:
        _refuse(said, "--file", "stream", "job_id", "reply")
        defaults = {"lane": "batch", **fields}
        jobs, problems = _read(said["file"], defaults, sampling, reasoning)
        context.exit(
            submit_file(
                config,
                jobs,
                problems,
                None if said["out"] in (None, STDIN) else _named(said["out"]),
                in_flight=said["in_flight"],
                quiet_limit_s=said["timeout_s"] or QUIET_LIMIT_S,
            )
        )
    _refuse(said, "--prompt", "out")
    fields["reasoning"] = Reasoning(**reasoning)
    context.exit(_submit_prompt(config, said, fields, sampling))


def _given(said: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: said[name] for name in names if said[name] is not None}


def _refuse(said: dict[str, Any], beside: str, *names: str) -> None:
    for name in names:
        if said[name] not in (None, False):
            flag = name.removeprefix("job_").replace("_", "-")
            raise click.UsageError(f"--{flag} makes no sense with {beside}.")


def _submit_prompt(
    config: Config, said: dict[str, Any], fields: dict[str, Any], sampling: dict[str, Any]
) -> int:
    text: str = said["prompt"]
    if text == STDIN:
        text = _utf8(sys.stdin.buffer.read())
    wait = said["wait"] or said["stream"]
    job = GenerationJob(
        prompt=text, sampling=Sampling(**_as_tuple(sampling)), stream=said["stream"], **fields
    )
    if said["job_id"] is not None:
        job = msgspec.structs.replace(job, id=said["job_id"])
    encode(job)  # raises what is wrong with it, before anything is connected
    if not wait:
        reply_to = said["reply"] or "default"
        asyncio.run(submit_prompt.publish_only(config, job, reply_to))
        if said["as_json"]:
            console.print_json({"job_id": job.id, "reply_to": reply_to})
        else:
            click.echo(job.id)
        return console.OK
    result = asyncio.run(
        submit_prompt.publish_and_wait(
            config,
            job,
            said["reply"],
            timeout_s=said["timeout_s"] or WAIT_S,
            as_json=said["as_json"],
        )
    )
    if said["as_json"]:
        click.echo(escaped(encode(result)))
    elif not said["stream"] and result.ok:
        click.echo(submit_prompt.printable(result.text))
    if not said["as_json"] and (reasoned := of_result(result)):
        click.echo(f"[reasoning: {reasoned}]", err=True)
    if (why := submit_prompt.why_not(result.outcome)) is not None:
        console.error(f"job {result.job_id} was {why}")
        return console.FAILED
    return console.OK


def _read(
    file: str, defaults: dict[str, Any], sampling: dict[str, Any], reasoning: dict[str, Any]
) -> tuple[list[GenerationJob], list[str]]:
    with contextlib.ExitStack() as stack:
        lines = sys.stdin.buffer if file == STDIN else stack.enter_context(Path(file).open("rb"))
        return parse_lines(lines, defaults=defaults, sampling=sampling, reasoning=reasoning)


def _named(out: str) -> Path:
    if not out or out.endswith("/"):
        raise click.UsageError(f"--out {out!r} is no name of a file.")
    return Path(out)


def _as_tuple(sampling: dict[str, Any]) -> dict[str, Any]:
    stop = sampling.get("stop")
    return sampling if stop is None else {**sampling, "stop": tuple(stop)}


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 text: {error}") from error
