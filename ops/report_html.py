"""HTML that holds anybody's text and does nothing: everything is escaped, and what would act on a
reader's eyes or terminal is shown as a sign. Pure."""

import base64
import hashlib
import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from .dlq_text import Span

# Nothing is loaded, run or sent; the one style sheet is named by its hash.
_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
# An icon of its own, empty: otherwise a browser asks for one.
_ICON: Final = '<link rel="icon" href="data:,">'


def esc(text: str) -> str:
    """Text for an element or an attribute; characters that act are shown as signs."""
    return html.escape("".join(map(_visible, text)))


def _visible(char: str) -> str:
    if char in "\n\t":
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    category = unicodedata.category(char)
    if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and char not in "\u200c\u200d"):
        return f"[U+{code:04X}]"
    return char


def marked(text: str, spans: Sequence[Span]) -> str:
    """The text with its bad places (half open, in order, apart) in `mark` elements."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [esc(text[at:start]), f"<mark>{esc(text[start:end])}</mark>"]
        at = end
    return "".join([*parts, esc(text[at:])])


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    chart: int | None = None,
) -> str:
    """A table; cells and heads are HTML. `numbers`: the columns that stand at the right; `chart`:
    the one that goes where there is little room."""
    classes = {**dict.fromkeys(numbers, " class=n"), chart: " class=b"}

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{classes.get(at, '')}>{each}</{tag}>" for at, each in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f"<div class=scroll><table>{head}<tbody>{body}</tbody></table></div>"


def section(name: str, title: str, body: str) -> str:
    """A part of the page with its title."""
    return f'<section id="{esc(name)}"><h2>{esc(title)}</h2>{body}</section>'


def page(title: str, body: str) -> str:
    """The whole document."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = html.escape(_POLICY.format(hash=digest))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" '
        f'content="no-referrer">{_ICON}<title>{esc(title)}</title><style>{STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


STYLE: Final = """
:root{--bg:#fbfbfa;--card:#fff;--ink:#1d1f23;--soft:#5c636e;--line:#dfe1e5;--bad:#b3261e;
--mark:#ffd9d2;--s0:#3a7d44;--s1:#c2410c;--s2:#7c3aed;--s3:#0369a1;--s4:#a16207;--s5:#64748b;--s6:#b4236a}
@media (prefers-color-scheme:dark){:root{--bg:#131518;--card:#1b1e23;--ink:#e7e9ec;--soft:#a0a7b3;
--line:#31363e;--bad:#ff8a7a;--mark:#6d211a;--s0:#6cc07a;--s1:#f08a4b;--s2:#b794f6;--s3:#5cb3e8;
--s4:#d8b04a;--s5:#94a3b8;--s6:#f472b6}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.4rem 0 .7rem}
h3{font-size:.95rem;margin:1.2rem 0 .4rem}p{margin:.4rem 0}
.soft,caption,.axis{color:var(--soft);font-size:.86rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;
margin-top:1rem}
.tile,.text{background:var(--card);border:1px solid var(--line);border-radius:.5rem;
padding:.7rem .9rem}
.tile b{display:block;font-size:1.45rem;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.86rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.28rem .9rem .28rem 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:break-word;min-width:4rem}
th{color:var(--soft);font-weight:600;white-space:nowrap}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;min-width:0}
td.n:last-child,th.n:last-child{padding-right:0}
th.b,td.b{width:50%}
@media (max-width:38rem){th.b,td.b{display:none}}
svg{display:block;width:100%;fill:var(--s3)}
svg.bar,svg.strip{height:.75rem;margin-top:.35rem}
svg.chart{height:11rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}
.s4{fill:var(--s4)}.s5{fill:var(--s5)}.s6{fill:var(--s6)}
polyline{fill:none!important;stroke-width:2;vector-effect:non-scaling-stroke}
polyline.s0{stroke:var(--s0)}polyline.s1{stroke:var(--s1)}polyline.s2{stroke:var(--s2)}
polyline.s3{stroke:var(--s3)}polyline.s4{stroke:var(--s4)}polyline.s5{stroke:var(--s5)}
polyline.s6{stroke:var(--s6)}
.track{fill:var(--line)}
.axis{display:flex;justify-content:space-between;gap:1rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.86rem;margin:.3rem 0}
.legend svg{display:inline-block;width:.7rem;height:.7rem;margin-right:.35rem}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--soft);font-size:.86rem}
.text{margin:.9rem 0;break-inside:avoid}
.text h3{margin:0 0 .2rem;overflow-wrap:anywhere}
.text .flaw{color:var(--bad)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.6rem 0;padding:.6rem .8rem;
background:var(--bg);border-radius:.35rem;font:.86rem/1.5 ui-monospace,monospace;
unicode-bidi:isolate}
bdi{overflow-wrap:anywhere}
mark{background:var(--mark);color:inherit;border-bottom:2px solid var(--bad)}
@media print{body{background:#fff;color:#000;font-size:11px}main{max-width:none;padding:0}
details:not([open])>*{display:none}h2{break-after:avoid}.scroll{overflow:visible}}
"""
