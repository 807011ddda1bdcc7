"""The parts of a drawing, and what every drawing of the book keeps."""

import importlib
import inspect
import pkgutil
import re
import xml.etree.ElementTree as ET

import pytest

from attention_course import diagrams
from attention_course.diagrams import Drawing
from attention_course.diagrams.drawing import COLOURS, TEXT_SIZE, WIDTH, masked
from tests.conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing):
    return ["".join(text.itertext()) for text in elements(drawing, "text")]


def every_drawing():
    for module in pkgutil.iter_modules(diagrams.__path__, "attention_course.diagrams."):
        for name, make in vars(importlib.import_module(module.name)).items():
            if (
                inspect.isfunction(make)
                and make.__module__ == module.name
                and module.name != "attention_course.diagrams.drawing"
                and not name.startswith("_")
                and not inspect.signature(make).parameters
            ):
                yield pytest.param(make, id=f"{module.name.rsplit('.', 1)[1]}.{name}")


def elements(drawing, tag):
    return ET.fromstring(drawing.svg()).findall(f".//{SVG}{tag}")


@pytest.mark.parametrize("make", list(every_drawing()))
class TestEveryDrawing:
    def test_is_the_same_each_time(self, make):
        assert make().svg() == make().svg()

    def test_fits_a_screen(self, make):
        assert make().height <= 720

    def test_no_box_is_cut_off(self, make):
        drawing = make()
        for box in elements(drawing, "rect")[1:]:
            left, top, width, height = (
                float(box.get(name)) for name in ("x", "y", "width", "height")
            )
            assert left >= 0 <= top
            assert left + width <= WIDTH
            assert top + height <= drawing.height

    def test_says_what_it_shows(self, make):
        assert make().description.endswith(".")
        assert len(make().description) > 40

    def test_has_no_identifier_and_no_reference(self, make):
        for element in ET.fromstring(make().svg()).iter():
            assert not {"id", "href", "style"} & set(element.attrib), element.attrib

    def test_has_only_colours_that_a_page_can_replace(self, make):
        for element in ET.fromstring(make().svg()).iter():
            for attribute in ("fill", "stroke"):
                colour = element.get(attribute, "none")
                if colour != "none":
                    classes = element.get("class").split()
                    names = [
                        c.split("-", 1)[1] for c in classes if c.startswith(attribute)
                    ]
                    assert [COLOURS[name] for name in names] == [colour]


def test_the_style_of_the_book_knows_every_colour():
    css = (ROOT / "book/_static/book.css").read_text("utf-8")
    for name in COLOURS:
        assert css.count(f"--{name}: #") == 2, name  # light and dark
        assert f".drawing .fill-{name} {{" in css
        assert f"--{name}: {COLOURS[name].replace('#ffffff', '#fff')};" in css


def test_text_has_subscripts_superscripts_and_italics():
    drawing = Drawing(50, "…")
    drawing.text(50, 25, "*h*_{i−1} W^Q")
    (text,) = elements(drawing, "text")
    assert "".join(text.itertext()) == "hi−1 WQ"
    spans = text.findall(f"{SVG}tspan")
    assert [span.get("font-style") for span in spans] == ["italic", None, None, None]
    assert float(spans[1].get("dy")) > 0 > float(spans[3].get("dy"))
    heights = [float(span.get("dy", 0)) for span in spans]
    assert sum(heights[:3]) == pytest.approx(0)  # back on the line


def test_text_cannot_become_markup():
    drawing = Drawing(50, 'a "description" <b>')
    drawing.text(50, 25, "<script>alert(1)</script> & *<i>*")
    (text,) = elements(drawing, "text")
    assert "".join(text.itertext()) == "<script>alert(1)</script> & <i>"
    assert ET.fromstring(drawing.svg()).get("aria-label") == 'a "description" <b>'


def test_the_lines_of_a_text_are_centred():
    drawing = Drawing(80, "…")
    drawing.text(50, 40, "one\ntwo\nthree")
    baselines = [float(text.get("y")) for text in elements(drawing, "text")]
    assert baselines[1] == pytest.approx(40 + 0.35 * TEXT_SIZE)
    assert baselines[2] - baselines[1] == pytest.approx(baselines[1] - baselines[0])


def test_a_box_knows_the_middles_of_its_sides():
    box = Drawing(100, "…").box(50, 40, 30, 20)
    assert (box.left, box.right, box.top, box.bottom) == (
        (35, 40),
        (65, 40),
        (50, 30),
        (50, 50),
    )


def test_the_head_of_an_arrow_is_at_its_end():
    drawing = Drawing(100, "…")
    drawing.arrow((10, 10), (10, 50), (60, 50))
    (head,) = elements(drawing, "polygon")
    assert head.get("points").split()[0] == "60,50"
    (line,) = elements(drawing, "path")
    assert line.get("d").startswith("M10 10 L10 50 L53 50")


def test_a_residual_connection_is_thinner_than_an_arrow_and_dashed():
    drawing = Drawing(20, "a layer and what passes it")
    drawing.arrow((0, 10), (40, 10))
    drawing.residual((0, 0), (0, 20), (40, 20))
    arrow, residual = elements(drawing, "path")
    assert float(residual.get("stroke-width")) < float(arrow.get("stroke-width"))
    assert residual.get("stroke-dasharray")
    assert not arrow.get("stroke-dasharray")


def test_a_curved_arrow_ends_vertically_in_a_head():
    drawing = Drawing(100, "…")
    drawing.curved_arrow((10, 90), (60, 20))
    (head,) = elements(drawing, "polygon")
    assert head.get("points").split()[0] == "60,20"
    curve, neck = (path.get("d") for path in elements(drawing, "path"))
    assert curve.startswith("M10 90 C10 ")
    assert curve.endswith("60 34")
    assert neck.startswith("M60 34 L60 ")


def test_a_curve_leaves_and_arrives_vertically_or_horizontally():
    drawing = Drawing(100, "…")
    drawing.flow((10, 90), (61, 20.126))
    drawing.flow((10, 90), (61, 20.126), horizontal=True)
    assert [path.get("d") for path in elements(drawing, "path")] == [
        "M10 90 C10 55.06 61 55.06 61 20.13",
        "M10 90 C35.5 90 35.5 20.13 61 20.13",
    ]


@pytest.mark.parametrize("points", [((10, 10),), ((0, 0), (10, 10), (10, 10))])
def test_an_arrow_without_a_direction_is_refused(points):
    with pytest.raises(ValueError, match=re.escape(f"not the same: {points}")):
        Drawing(50, "…").arrow(*points)


@pytest.mark.parametrize("shades", [[], [[]], [[0.1], [0.2, 0.3]]])
def test_a_grid_without_squares_or_of_unequal_rows_is_refused(shades):
    lengths = re.escape(str([len(row) for row in shades]))
    with pytest.raises(ValueError, match=f"not of the lengths {lengths}"):
        Drawing(50, "…").grid(25, 25, shades)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["box", "circle", "dot", "bar"])
def test_an_unknown_role_is_refused(name):
    sizes = (10,) if name in ("circle", "dot") else (10, 10)
    with pytest.raises(ValueError, match=r"'gradient'\), not 'red'"):
        getattr(Drawing(50, "…"), name)(25, 25, *sizes, role="red")


def test_the_boxes_of_a_chain_are_joined_in_their_order():
    drawing = Drawing(100, "…")
    first, second = drawing.chain([60, 20], 50, (20, 10), ["a", "b"])
    assert (first.x, second.x) == (60, 20)
    (head,) = elements(drawing, "polygon")  # from the first leftwards to the second
    assert head.get("points").split()[0] == "30,50"


def test_a_query_is_compared_with_keys_at_its_own_height():
    drawing = Drawing(100, "…")
    query = drawing.box(20, 50, 20, 20, "q", "query")
    keys = [drawing.box(x, 80, 20, 20, "k", "key") for x in (60, 100)]
    drawing.compare(query, keys)
    (line,) = elements(drawing, "path")
    assert line.get("d") == "M30 50 L100 50"
    dots = [(dot.get("cx"), dot.get("cy")) for dot in elements(drawing, "circle")]
    assert dots == [("60", "50"), ("100", "50")]


def test_an_outline_hides_nothing():
    drawing = Drawing(100, "…")
    drawing.outline(drawing.grid(50, 50, [[1, 0]]))
    *_, outline = elements(drawing, "rect")
    assert outline.get("fill") == "none"
    place = [outline.get(name) for name in ("x", "y", "width", "height")]
    assert place == ["34", "42", "32", "16"]


def test_a_grid_crosses_out_what_is_masked():
    drawing = Drawing(100, "…")
    box = drawing.grid(50, 50, [[1, None], [0.5, 0]], side=10)
    assert (box.width, box.height) == (20, 20)
    assert len(elements(drawing, "path")) == 1
    opacities = [
        rect.get("fill-opacity")
        for rect in elements(drawing, "rect")
        if rect.get("fill-opacity")
    ]
    assert opacities == ["1", "0.5"]


def test_a_mask_hides_shades():
    mask = [[True, False], [True, True]]
    assert masked([[0.1, 0.2], [0.3, 0.0]], mask) == [[0.1, None], [0.3, 0.0]]
    with pytest.raises(ValueError, match="shorter"):
        masked([[0.1, 0.2]], [[True]])
