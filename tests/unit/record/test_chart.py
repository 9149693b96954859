"""The chart is an image of any run, drawn with libraries that every ComfyUI has."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from headroom.record import chart

ROOT = Path(__file__).resolve().parents[3]
GIB = 1024.0


def node(title="KSampler", spans=((0.0, 1.0),)):
    return {"node_id": "1", "title": title, "class_type": "Kind", "spans": [list(s) for s in spans]}


def samples(seconds, rss, **devices):
    lines = {f"cuda:{name[1:]}": values for name, values in devices.items()}
    return {"seconds": seconds, "rss_mib": rss, "devices": lines}


def run(*nodes, **changes):
    values = {
        "status": "success", "seconds": 2.0, "device": "cuda:0", "peak_vram_mib": 900.0,
        "vram_total_mib": 1024.0, "vram_source": "driver", "peak_rss_mib": 1200.0,
        "nodes": list(nodes), "oom": [], "actions": [],
        "samples": samples([0.0, 1.0, 2.0], [1000.0, 1200.0, 1100.0], d0=[1.0, 900.0, 5.0]),
    }
    return {**values, **changes}


def assert_image(image):
    assert image.dtype == torch.float32 and image.ndim == 4 and image.shape[3] == 3
    assert image.shape[0] == 1 and 0.0 <= float(image.min()) and float(image.max()) <= 1.0


def has(image, colour, least=1):
    """Whether that many pixels have nearly this colour (edges are smoothed)."""
    wanted = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return int(((image[0] - wanted).abs().amax(dim=-1) < 0.02).sum()) >= least


def test_a_run_is_drawn_with_its_line_and_its_bands():
    image = chart.report_image(run(node(), node("VAE Decode", [(1.0, 2.0)])))
    assert_image(image)
    assert image.shape == (1, 640, 1200, 3)
    assert has(image, chart.VRAM_COLOURS[0], 200) and has(image, chart.RAM_COLOUR, 200)
    assert all(has(image, colour, 2000) for colour in chart.BAND_COLOURS)


def test_the_line_stands_where_the_figures_are():
    """VRAM is high in the second half only, so its colour is high on the right half only."""
    flat = samples([0.0, 1.0, 2.0], [10.0] * 3, d0=[100.0, 900.0, 900.0])
    image = chart.report_image(run(samples=flat))
    middle, plot = 630, image[:, chart.TOP : chart.TOP + 100]
    assert has(plot[:, :, middle + 20 :], chart.VRAM_COLOURS[0], 200)
    assert not has(plot[:, :, : middle - 20], chart.VRAM_COLOURS[0], 10)


def test_every_device_in_use_has_a_line_of_its_own():
    two = samples([0.0, 2.0], [1000.0] * 2, d0=[900.0] * 2, d1=[300.0] * 2, d2=[None] * 2)
    image = chart.report_image(run(samples=two))
    assert [has(image, colour, 200) for colour in chart.VRAM_COLOURS[:3]] == [True, True, False]


def test_attempts_are_marked():
    plain, marked = (chart.report_image(run(oom=oom)) for oom in ([], [{"at_seconds": 0.5}]))
    assert not has(plain, chart.OOM_COLOUR) and has(marked, chart.OOM_COLOUR, 40)


def test_a_cpu_run_shows_ram_alone():
    cpu = run(peak_vram_mib=None, vram_total_mib=None, vram_source=None, device="cpu",
              samples=samples([0.0, 2.0], [1000.0, 1100.0]))
    image = chart.report_image(cpu)
    assert_image(image)
    assert not has(image, chart.VRAM_COLOURS[0]) and has(image, chart.RAM_COLOUR, 200)


@pytest.mark.parametrize("changes", [
    {"nodes": []},
    {"seconds": 0.0},
    {"samples": samples([], [], d0=[])},
    {"samples": samples([0.0], [None], d0=[None]), "peak_rss_mib": None},
    {"samples": samples([0.0, 1.0], [1.0, 2.0], d0=[None, 5.0])},
    {"peak_vram_mib": 0.0, "vram_total_mib": None,
     "samples": samples([0.0], [0.0], d0=[0.0])},
    {"seconds": 90_000.0},
])
def test_an_odd_run_is_drawn_without_a_warning(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_image(chart.report_image(run(node(), **changes)))


@pytest.mark.parametrize(
    ("title", "shown"),
    [("Décodage", "Kind"), ("加载检查点", "Kind"), ("A node", "A node")],
)
def test_a_title_is_shown_in_letters_that_pillows_own_font_has(title, shown):
    one, other = (chart.report_image(run(node(each))) for each in (title, shown))
    assert torch.equal(one, other)


@pytest.mark.parametrize("title", ["加载检查点 $x_1$ 🚀", "", "a $ b_^{ $", "Größe", "x" * 300])
def test_a_title_in_any_script_is_drawn(title):
    assert_image(chart.report_image(run(node(title))))


def test_a_name_at_the_right_edge_is_shown_whole():
    late = chart.report_image(run(node("VAE Decode and Save", [(1.9, 2.0)])))
    early = chart.report_image(run(node("VAE Decode and Save", [(1.0, 1.1)])))
    names = [float((1 - image[0, 30 : chart.TOP - 1]).sum()) for image in (late, early)]
    assert names[0] == pytest.approx(names[1], rel=0.01)


@pytest.mark.parametrize(
    ("largest", "figures"),
    [(8.96, [0, 2, 4, 6, 8]), (0.011, [0, 0.005, 0.01]), (5, [0, 1, 2, 3, 4, 5])],
)
def test_axes_have_round_figures(largest, figures):
    assert chart.round_figures(largest) == pytest.approx(figures)


def test_an_old_pillow_draws_with_the_one_font_it_has(monkeypatch):
    from PIL import ImageFont

    small = ImageFont.load_default_imagefont()
    monkeypatch.setattr(ImageFont, "load_default", lambda: small)
    assert has(chart.report_image(run(node("Größe"))), chart.VRAM_COLOURS[0], 200)


def test_without_a_record_the_image_says_so():
    image = chart.report_image(None)
    assert_image(image)
    assert 0 < float((image < 0.5).float().mean()) < 0.2


def test_a_chart_needs_no_more_than_pillow_and_numpy():
    """In a process in which nothing else can be imported, and that has not imported Pillow yet."""
    script = (
        "import sys; sys.modules['matplotlib'] = None; "
        f"sys.path.insert(0, {str(ROOT)!r}); import headroom; assert 'PIL' not in sys.modules; "
        "from headroom.record import chart; image = chart.report_image(None); "
        "assert 'PIL' in sys.modules; print(tuple(image.shape))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "(1, 80, 640, 3)", done.stderr
