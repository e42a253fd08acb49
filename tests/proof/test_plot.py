"""The plots are sound SVG, with every point where it belongs."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from .growth import lengths
from .plot import plot

NAME = "{http://www.w3.org/2000/svg}"
VALUES = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20), st.text(max_size=30))
def test_every_point_is_inside(points: list[tuple[float, float]], words: str) -> None:
    printable = "".join(filter(str.isprintable, words)).replace("\ufffe", "")
    root = ElementTree.fromstring(plot(printable, "<x>", "&y", {printable: points}))  # noqa: S314
    dots = root.findall(f"{NAME}circle")
    assert len(dots) == len(points)
    for dot in dots:
        assert 69 <= float(dot.attrib["cx"]) <= 611
        assert 39 <= float(dot.attrib["cy"]) <= 291


def test_the_gates_are_timed() -> None:
    assert [size for size, cost in lengths((50, 100), lambda _: None) if cost > 0] == [50, 100]
