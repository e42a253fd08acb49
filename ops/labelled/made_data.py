"""Good data that looks like a fault: tables, arrays, logs, formulas, dumps."""

import base64
import csv
import io
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Final

from .words import ADJECTIVES, NAMES, OPENINGS, PLACES, THINGS, VERBS

_START: Final = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def sentence(draw: random.Random) -> str:
    """Somebody does something."""
    return (
        f"{draw.choice(NAMES)} {draw.choice(VERBS)} the {draw.choice(ADJECTIVES)} "
        f"{draw.choice(THINGS)} in {draw.choice(PLACES)}"
    )


def table(draw: random.Random) -> str:
    """A Markdown table with its separator row, wide cells padded, some columns all alike."""
    rows = draw.randint(4, 14)
    same = draw.choice(("OK", "0.00", "n/a", "yes", "–", "✅"))
    cells = [
        [str(n), draw.choice(THINGS), draw.choice(PLACES), f"{draw.random() * 90:.2f}", same]
        for n in range(1, rows + 1)
    ]
    head = ["No.", "Part", "Site", "Weight", "State"]
    width = draw.choice((0, 8, 14, 30))
    lines = ["| " + " | ".join(one.ljust(width) for one in row) + " |" for row in [head, *cells]]
    dashes = "-" * max(width, 3)
    lines.insert(1, "|" + "|".join(f" {dashes} " for _ in head) + "|")
    return f"{draw.choice(OPENINGS)}\n\n" + "\n".join(lines)


def box_table(draw: random.Random) -> str:
    """A table with drawn borders, as terminals show them."""
    corner, across, down = draw.choice((("+", "-", "|"), ("┼", "─", "│"), ("+", "=", "|")))
    widths = [draw.randint(6, 40) for _ in range(draw.randint(2, 4))]
    rule = corner + corner.join(across * (w + 2) for w in widths) + corner
    rows: list[str] = [rule]
    for _ in range(draw.randint(3, 10)):
        rows.append(down + down.join(f" {draw.choice(THINGS)[:w]:<{w}} " for w in widths) + down)
        rows.append(rule)
    return "\n".join(rows)


def json_rows(draw: random.Random) -> str:
    """An array of objects that differ in little."""
    status = draw.choice(("ok", "pending", "done"))
    rows: list[dict[str, object]] = [
        {"id": n, "name": draw.choice(THINGS), "status": status, "tags": [], "parent": None}
        for n in range(draw.randint(4, 25))
    ]
    return json.dumps(rows, indent=draw.choice((None, 2, 4)), ensure_ascii=False)


def json_nested(draw: random.Random) -> str:
    """A configuration with depth."""

    def node(depth: int) -> object:
        if depth == 0:
            return draw.choice((True, False, None, 0, 1, draw.choice(THINGS), draw.random()))
        return {draw.choice(THINGS): node(depth - 1) for _ in range(draw.randint(1, 3))}

    return json.dumps({"version": 1, "root": node(draw.randint(3, 6))}, indent=2)


def csv_rows(draw: random.Random) -> str:
    """Rows with empty, constant and quoted cells."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=draw.choice(",;\t"), lineterminator="\n")
    writer.writerow(["id", "part", "site", "amount", "note", "flag"])
    for n in range(draw.randint(8, 50)):
        note = draw.choice(("", "", "", 'as "new", boxed'))
        amount = draw.choice(("0", "0.0", str(draw.randint(1, 999))))
        writer.writerow([n, draw.choice(THINGS), draw.choice(PLACES), amount, note, "NULL"])
    return out.getvalue()


def log(draw: random.Random) -> str:
    """A program's log, some messages again and again."""
    at = _START + timedelta(seconds=draw.randint(0, 10**6))
    lines: list[str] = []
    for _ in range(draw.randint(8, 30)):
        at += timedelta(milliseconds=draw.randint(1, 9000))
        level = draw.choice(("INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR"))
        lines.append(
            f"{at.isoformat()} {level:<5} [worker-{draw.randint(1, 4)}] "
            + draw.choice(("heartbeat ok", "GET /health 200 3ms", sentence(draw)))
        )
    return "\n".join(lines)


def polling(draw: random.Random) -> str:
    """Waiting for something, told line by line: the same but for the time."""
    at = _START + timedelta(minutes=draw.randint(0, 10**4))
    job, step = draw.randint(100, 999), draw.choice((5, 10, 30, 60))
    lines = [
        f"[{at + timedelta(seconds=step * n):%H:%M:%S}] job {job}: status=running, retry in {step}s"
        for n in range(draw.randint(6, 18))
    ]
    return "\n".join([*lines, f"job {job}: status=done"])


def progress(draw: random.Random) -> str:
    """Progress bars as a build prints them."""
    name = draw.choice(THINGS)
    lines: list[str] = []
    for percent in range(0, 101, draw.choice((5, 10, 20))):
        filled = percent * 40 // 100
        lines.append(f"{name}: {percent:3d}% |{'█' * filled}{' ' * (40 - filled)}| {percent}/100")
    return "\n".join(lines)


def matrix(draw: random.Random) -> str:
    """Matrices of mostly zeros, in one of several notations."""
    size = draw.randint(4, 12)
    zero = draw.choice(("0", "0.0", "0.000"))
    rows = [[zero] * size for _ in range(size)]
    for n in range(size):
        rows[n][n] = zero.replace("0", "1", 1)
    if draw.random() < 0.4:
        body = " \\\\\n".join(" & ".join(row) for row in rows)
        return f"The matrix is\n\\[\n\\begin{{pmatrix}}\n{body}\n\\end{{pmatrix}}\n\\]\n"
    return "[" + ",\n ".join("[" + ", ".join(row) + "]" for row in rows) + "]"


def latex(draw: random.Random) -> str:
    """Formulas with their backslashes and braces."""
    a, b, n = draw.choice("xyzuvw"), draw.choice("abcpqr"), draw.randint(2, 9)
    terms = " + ".join(f"\\frac{{{b}_{{{k}}}}}{{{k}!}} {a}^{{{k}}}" for k in range(1, n + 1))
    rows = " \\\\\n".join(
        f"{a}_{{{k}}} &= \\sum_{{i=0}}^{{{k}}} \\binom{{{k}}}{{i}} {b}^{{i}}" for k in range(n)
    )
    return (
        f"Let ${b} \\in \\mathbb{{R}}$ and $f({a}) = {terms} + \\dots$\n\n"
        f"\\begin{{align}}\n{rows}\n\\end{{align}}\n\n"
        f"so that $\\lim_{{{a} \\to 0}} f({a}) = 0$ and "
        f"$\\int_0^1 f({a})\\,\\mathrm{{d}}{a} \\le {n}$. $\\blacksquare$"
    )


def latex_table(draw: random.Random) -> str:
    """A table as LaTeX writes it."""
    rows = " \\\\\n".join(
        f"{draw.choice(THINGS)} & {draw.randint(1, 99)} & {draw.random():.3f} & --- "
        for _ in range(draw.randint(4, 12))
    )
    return (
        "\\begin{table}[ht]\n\\centering\n\\begin{tabular}{lrrr}\n\\toprule\n"
        f"Part & Count & Share & Note \\\\\n\\midrule\n{rows}\\\\\n\\bottomrule\n"
        "\\end{tabular}\n\\caption{Parts by site.}\n\\end{table}"
    )


def encoded(draw: random.Random) -> str:
    """Base64 of bytes, some of it a picture that is nearly empty."""
    size = draw.randint(60, 900)
    raw = bytes(size) if draw.random() < 0.3 else draw.randbytes(size)
    return "data:application/octet-stream;base64," + base64.b64encode(raw).decode()


def hex_dump(draw: random.Random) -> str:
    """A hex dump with its column of characters."""
    raw = draw.randbytes(draw.randint(64, 400)) if draw.random() < 0.7 else bytes(320)
    lines: list[str] = []
    for at in range(0, len(raw), 16):
        row = raw[at : at + 16]
        shown = "".join(chr(one) if 32 <= one < 127 else "." for one in row)
        lines.append(f"{at:08x}  {row.hex(' ', 1):<47}  |{shown}|")
    return "\n".join(lines)


def identifiers(draw: random.Random) -> str:
    """Checksums, version numbers, addresses: letters that no language has in that order."""
    return "\n".join(
        draw.choice(
            (
                draw.randbytes(32).hex(),
                f"{draw.randint(0, 9)}.{draw.randint(0, 40)}.{draw.randint(0, 99)}-rc1",
                ":".join(f"{draw.randint(0, 65535):x}" for _ in range(8)),
                f"{draw.choice(THINGS)}-{draw.getrandbits(64):016x}",
            )
        )
        for _ in range(draw.randint(6, 20))
    )
