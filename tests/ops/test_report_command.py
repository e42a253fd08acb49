"""`sluice report` as a user runs it: on files, on the queue of a real broker, with a real
Prometheus; and its page in a real browser."""

import asyncio
import http.server
import json
import struct
import threading
import zlib
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aio_pika.abc import AbstractRobustConnection
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from sluicegate.ops.cli import main
from sluicegate.ops.dlq_export import whole
from sluicegate.ops.dlq_letter import Properties, read_letter
from sluicegate.producer.look import standing
from sluicegate.producer.sealing import make_pair, sealing_key
from sluicegate.producer.secrecy import Secrecy
from sluicegate.schemas import (
    Completed,
    Failed,
    Flaw,
    GenerationResult,
    Lineage,
    Names,
    Reason,
    Timings,
    encode,
)

from .browser import Browser, browser
from .dlq_letters import LIMIT_S, NOW, attempt, bury, job, rejected, trip, undecodable
from .private_prometheus import PROMETHEUS, PrivatePrometheus

EVIL = (
    "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"
    "\x1b[31m \u202eevil "
)


def sluice(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)], env=env)


def write_dead(file: Path, count: int = 5) -> None:
    gave_up = attempt(
        1,
        flaw=Flaw.LOOP,
        found_by="loop",
        detail=EVIL,
        text=f"A good beginning. {EVIL}{'und' * 400}{' so on' * 30}",
        text_chars=9000,
        trips=(
            trip(action="give_up", flaw=Flaw.LOOP, chars=(18, 60), quote=EVIL),
            trip(wasted=40, quote=EVIL),
        ),
    )
    letters = [rejected(f"order-{at}", at=NOW - timedelta(minutes=7 * at)) for at in range(count)]
    letters.append(
        rejected(
            "evil-1",
            reason=Reason.GATE_TRIPPED,
            flaw=Flaw.LOOP,
            detail=EVIL,
            job=job("evil-1", prompt=EVIL, lineage=Lineage(attempts=(gave_up,))),
        )
    )
    with file.open("wb") as out:
        for each in [*letters, undecodable("raw-1")]:
            line = whole(read_letter(encode(each), Properties()))
            out.write(msgspec.json.encode(line) + b"\n")


def write_results(file: Path, count: int = 40) -> None:
    with file.open("wb") as out:
        for at in range(count):
            failed = Failed(reason=Reason.ENGINE_FAULT, detail="")
            made = GenerationResult(
                job_id=f"job-{at}",
                attempt=1,
                outcome=failed if at % 9 == 8 else Completed(),
                timings=Timings(queued_s=0.1 * at, first_token_s=0.05, engine_s=1.0 + at / 10),
                finished_at=NOW - timedelta(minutes=3 * at),
                lineage=Lineage(
                    attempts=(attempt(1, flaw=None, found_by="", text="", trips=(trip(),)),)
                ),
            )
            out.write(encode(made) + b"\n")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    dead, results = tmp_path / "dead.jsonl", tmp_path / "results.jsonl"
    write_dead(dead)
    write_results(results)
    return dead, results


class TestFiles:
    def test_a_page_and_its_figures(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        dead, results = files
        out = tmp_path / "report.html"
        done = sluice("--dead", dead, "--results", results, "-o", out)
        assert (done.exit_code, done.stdout) == (0, "")
        assert done.stderr.splitlines()[-1] == f"{out}: 40 results, 7 dead letters"
        assert out.read_text().startswith("<!doctype html>")
        again = sluice("--dead", dead, "-o", out)
        assert (again.exit_code, "--force" in again.stderr) == (2, True)
        assert sluice("--dead", dead, "-o", out, "--force").exit_code == 0

        told = json.loads(sluice("--dead", dead, "--results", results, "--json").stdout)
        assert told["figures"]["outcomes"] == {"completed": 36, "failed": 4}
        assert told["figures"]["dead_reasons"]["checks_rejected"] == 5
        assert [each["name"] for each in told["figures"]["latencies"]] == [
            "queue",
            "first token",
            "engine",
            "end to end",
        ]
        assert told["prometheus"] is None
        since = (NOW - timedelta(minutes=10)).isoformat()
        part = json.loads(
            sluice("--dead", dead, "--results", results, "--since", since, "--json").stdout
        )
        assert (part["figures"]["results"], part["figures"]["letters"]) == (4, 4)

    def test_texts_that_are_hidden(self, tmp_path: Path) -> None:
        private, public = tmp_path / "k.key.pem", tmp_path / "k.pub.pem"
        make_pair(private, public)
        letters = [
            Secrecy("encrypted", key=sealing_key(public)).letter(rejected("order-1")),
            Secrecy("redacted").letter(rejected("order-2")),
        ]
        dead = tmp_path / "dead.jsonl"
        lines = [
            msgspec.json.encode(whole(read_letter(encode(each), Properties()))) for each in letters
        ]
        dead.write_bytes(b"\n".join(lines))
        told = json.loads(sluice("--dead", dead, "--json").stdout)
        # What was found is told; no place is marked in a text that is not there.
        assert (told["figures"]["letters"], told["figures"]["hidden"]) == (2, 2)
        assert told["figures"]["worst"] == told["figures"]["taken_back"] == []
        assert told["figures"]["trips"]
        assert "--key FILE" in told["remarks"][0]
        told = json.loads(sluice("--dead", dead, "--key", private, "--json").stdout)
        assert told["figures"]["hidden"] == 1
        assert {each["job_id"] for each in told["figures"]["worst"]} == {"order-1"}
        assert "Tell me of rivers." in {each["prompt"] for each in told["figures"]["worst"]}

    def test_what_cannot_be_used(self, tmp_path: Path) -> None:
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text("no\nlines\n")
        for flag, what in (("--dead", "dead letters"), ("--results", "results")):
            done = sluice(flag, wrong)
            assert done.exit_code == 2
            assert f"{wrong} has no {what}: {wrong}:1:" in done.stderr
        done = sluice(wrong)
        assert (done.exit_code, f"--dead {wrong}" in done.stderr) == (2, True)
        assert sluice("--dead", tmp_path / "nowhere").exit_code == 2
        # Said before anything is read, and by the folder's own name.
        done = sluice("--dead", wrong, "--out", tmp_path / "nowhere" / "report.html")
        assert (done.exit_code, f"no folder {tmp_path / 'nowhere'}" in done.stderr) == (2, True)
        done = sluice("--since", "last week")
        assert (done.exit_code, "3d" in done.stderr) == (2, True)
        assert sluice("--since", "1h", "--until", "2h").exit_code == 2
        done = sluice("--no-queue", "--prometheus", "http://user:secret@127.0.0.1:9")
        assert done.exit_code == 3
        assert "can't be reached" in done.stderr
        assert "secret" not in done.stderr
        done = sluice("--no-queue", "--prometheus", "ftp://x")
        assert (done.exit_code, "http://host:9090" in done.stderr) == (3, True)


@pytest.mark.broker
class TestQueue:
    async def test_the_queue_is_read_and_left_as_it_is(
        self, broker_url: str, namespace: str, connection: AbstractRobustConnection
    ) -> None:
        letters = [rejected(f"order-{at}", at=NOW + timedelta(minutes=at)) for at in range(4)]
        names = Names(namespace)
        await bury(connection, names, letters)
        env = {"SLUICE_AMQP_URL": broker_url, "SLUICE_NAMESPACE": namespace}
        since = (NOW + timedelta(minutes=1)).isoformat()
        done = await asyncio.to_thread(sluice, "--json", "--since", since, env=env)
        assert done.exit_code == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["figures"]["letters"] == 3
        assert "***" in told["sources"][0]
        assert (await standing(connection, names.dead))[0] == 4


CHECKS = """(() => {
  const shown = each => { const box = each.getBoundingClientRect();
    return box.width > 0 && box.height > 0; };
  const marks = [...document.querySelectorAll('pre mark')];
  const style = marks.length ? getComputedStyle(marks[0]) : {};
  return {
    title: document.title,
    scripts: document.scripts.length + document.images.length,
    marks: marks.filter(shown).map(each => each.textContent),
    background: style.backgroundColor,
    page: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    headings: [...document.querySelectorAll('h2')].filter(shown).map(each => each.textContent),
    charts: [...document.querySelectorAll('svg.chart')].filter(shown)
      .map(each => each.getAttribute('aria-label')),
    bars: [...document.querySelectorAll('svg.bar rect')].filter(shown).length,
    room: document.documentElement.clientWidth,
    wide: document.documentElement.scrollWidth,
    over: [...document.querySelectorAll('main *')].filter(each => !each.closest('.scroll'))
      .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
      .map(each => each.outerHTML.slice(0, 80)),
  };
})()"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Browser, Path]]:
    folder = tmp_path_factory.mktemp("report")
    write_dead(folder / "dead.jsonl")
    write_results(folder / "results.jsonl")
    out = folder / "report.html"
    done = sluice("--dead", folder / "dead.jsonl", "--results", folder / "results.jsonl", "-o", out)
    assert done.exit_code == 0
    with browser(folder / "profile") as made:
        made.size(1000)
        made.prefers("light")
        made.open(out)
        yield made, out


class TestPage:
    def test_nothing_is_asked_for_and_nothing_is_wrong(self, shown: tuple[Browser, Path]) -> None:
        page, out = shown
        assert page.requests() in ([out.as_uri()], [out.as_uri(), "data:,"])
        assert page.complaints() == []
        seen = page.evaluate(CHECKS)
        assert seen["title"] == "sluicegate report"
        assert seen["scripts"] == 0

    def test_the_browser_would_have_complained(
        self, shown: tuple[Browser, Path], tmp_path: Path
    ) -> None:
        """What the test before this one would see of a page that is not as ours."""
        page, out = shown
        wrong = tmp_path / "wrong.html"
        inside = "<script>alert(1)</script><img src=http://127.0.0.1:9/x><p style=color:red>x"
        wrong.write_text(out.read_text().replace("<main>", f"<main>{inside}", 1))
        page.open(wrong)
        said = json.dumps(page.complaints())
        for directive in ("script-src", "img-src", "style-src"):
            assert directive in said
        page.open(out)

    def test_all_of_it_can_be_seen(self, shown: tuple[Browser, Path]) -> None:
        page, _ = shown
        seen = page.evaluate(CHECKS)
        assert seen["headings"] == [
            "Results over time",
            "Latency",
            "Gates",
            "Retries",
            "Dead letters",
            "The worst texts",
            "What gates took back",
        ]
        assert seen["charts"] == ["Results, by outcome", "Dead letters, by reason"]
        assert seen["bars"] > 5
        assert "qzx vvk qqq" in seen["marks"]
        # The place that a gate gave up at, as it was, and what acts in it as signs.
        whole_text = f"A good beginning. {EVIL}"
        assert whole_text[18:60] in seen["marks"]
        text = page.evaluate("document.querySelector('main').textContent")
        assert "\u241b[31m [U+202E]evil" in text

    def test_it_fits_any_width_in_light_and_dark_and_on_paper(
        self, shown: tuple[Browser, Path]
    ) -> None:
        page, _ = shown
        looks: list[tuple[str, str]] = []
        for scheme in ("light", "dark"):
            page.prefers(scheme)
            for width in (1400, 760, 320):
                page.size(width)
                seen = page.evaluate(CHECKS)
                assert seen["over"] == []
                assert seen["wide"] <= seen["room"] == width
                assert seen["background"] not in ("rgba(0, 0, 0, 0)", seen["page"])
                rows = distinct_rows(page.picture())
                assert rows > 10
            looks.append((seen["page"], seen["ink"]))
        assert looks[0] != looks[1]
        page.prefers("light", media="print")
        assert page.evaluate(CHECKS)["page"] == "rgb(255, 255, 255)"
        page.prefers("light")


def distinct_rows(png: bytes) -> int:
    """How many different rows of bytes a picture has, compressed as they are: one of nothing but
    its background has one or two."""
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    (width,) = struct.unpack(">I", png[16:20])
    rows = zlib.decompress(data)
    channels = {2: 3, 6: 4}[png[25]]
    step = 1 + width * channels
    return len({rows[start : start + step] for start in range(0, len(rows), step)})


async def known(running: PrivatePrometheus, expression: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await running.query(expression):
            await asyncio.sleep(0.2)


class TestPrometheus:
    @pytest.mark.skipif(PROMETHEUS is None, reason="needs Prometheus: apt-get install prometheus")
    async def test_a_real_one(self, tmp_path: Path) -> None:
        registry = CollectorRegistry()
        results = Counter("sluice_results_total", "x", ["outcome"], registry=registry)
        trips = Counter(
            "sluice_gate_trips_total", "x", ["level", "flaw", "action"], registry=registry
        )
        queued = Histogram("sluice_queued_seconds", "x", buckets=(1, 2, 4), registry=registry)
        ended = results.labels(outcome="completed")
        tripped = trips.labels(level="3", flaw="loop", action="rollback")
        server, thread = start_http_server(0, "127.0.0.1", registry)
        target = f"127.0.0.1:{server.server_port}"
        try:
            async with PrivatePrometheus(tmp_path, [target], {"groups": []}) as running:
                await known(running, "count_over_time(sluice_queued_seconds_count[1m]) > 1")
                for _ in range(100):
                    ended.inc()
                    tripped.inc()
                    queued.observe(1.5)
                await known(running, "increase(sluice_queued_seconds_count[1m]) > 50")
                flags = ("--no-queue", "--prometheus", running.url, "--since", "5m")
                done = await asyncio.to_thread(sluice, *flags, "--json")
                page = await asyncio.to_thread(sluice, *flags)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert done.exit_code == 0, done.stderr
        told = json.loads(done.stdout)["prometheus"]
        assert list(told["rates"]) == ["completed"]
        assert max(value for _, value in told["rates"]["completed"]) > 0
        assert 1 <= told["latencies"]["queue"][0] <= 2
        assert 50 <= told["totals"]["Trips by flaw"]["loop"] <= 200
        assert list(told["totals"]["Trips by level"]) == ["3"]
        assert page.exit_code == 0
        assert "Results a minute, from Prometheus" in page.stdout
        assert "<polyline" in page.stdout

    @pytest.mark.parametrize(
        ("value", "code"),
        [
            (b'[1,"+Inf"]', 0),
            (b'[1e300,"1e300"]', 0),
            (b'[-1e300,"NaN"]', 0),
            (b"[" * 100_000 + b"]" * 100_000, 3),
            (b'["\xff"]', 3),
        ],
    )
    def test_numbers_that_nothing_can_be_drawn_of(self, value: bytes, code: int) -> None:
        class Odd(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                series = b'{"metric":{},"value":%b,"values":[%b]}' % (value, value)
                self.wfile.write(b'{"status":"success","data":{"result":[%b]}}' % series)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            done = sluice("--no-queue", "--prometheus", f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert done.exit_code == code, done.stderr
        assert "unexpected" not in done.stderr

    def test_what_is_no_prometheus(self) -> None:
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if "query_range" in self.path else 500)
                self.end_headers()
                self.wfile.write(b"<html>\x1b[2J")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            done = sluice("--no-queue", "--prometheus", url)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert (done.exit_code, done.stdout) == (3, "")
        assert "is no Prometheus" in done.stderr
