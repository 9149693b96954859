"""The chart is an image of the run, whatever the run was like."""

import sys
import warnings

import pytest
import torch

from headroom.record import chart


def node(title="KSampler", spans=((0.0, 1.0),)):
    return {"node_id": "1", "title": title, "class_type": "Kind", "spans": [list(s) for s in spans]}


def run(*nodes, **changes):
    values = {
        "status": "success", "seconds": 2.0, "device": "cuda:0", "peak_vram_mib": 900.0,
        "vram_total_mib": 1024.0, "vram_source": "driver", "peak_rss_mib": 1200.0,
        "nodes": list(nodes), "oom": [], "actions": [],
        "samples": {"seconds": [0.0, 1.0, 2.0], "vram_mib": [1.0, 900.0, 5.0],
                    "rss_mib": [1000.0, 1200.0, 1100.0]},
    }
    return {**values, **changes}


def assert_image(image):
    assert image.dtype == torch.float32 and image.ndim == 4 and image.shape[3] == 3
    assert image.shape[0] == 1 and 0.0 <= float(image.min()) and float(image.max()) <= 1.0


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib")


@pytest.mark.usefixtures("matplotlib")
class TestChart:
    def test_a_run_is_drawn(self):
        image = chart.chart_image(run(node(), node("VAE Decode", [(1.0, 2.0)])))
        assert_image(image)
        assert len(torch.unique(image.reshape(-1, 3), dim=0)) > 20

    def test_attempts_change_the_picture(self):
        attempt = {"at_seconds": 0.5}
        plain, marked = (chart.chart_image(run(node(), oom=oom)) for oom in ([], [attempt]))
        assert not torch.equal(plain, marked)

    @pytest.mark.parametrize(
        "changes",
        [
            {"nodes": []},
            {"seconds": 0.0},
            {"peak_vram_mib": None, "vram_total_mib": None, "vram_source": None,
             "samples": {"seconds": [0.0], "vram_mib": [None], "rss_mib": [1000.0]}},
            {"samples": {"seconds": [], "vram_mib": [], "rss_mib": []}},
            {"samples": {"seconds": [0.0, 1.0], "vram_mib": [None, 5.0], "rss_mib": [1.0, 2.0]}},
            {"peak_vram_mib": 0.0, "vram_total_mib": None},
        ],
    )
    def test_an_odd_run_is_drawn_without_a_warning(self, changes):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_image(chart.chart_image(run(node(), **changes)))

    def test_titles_in_any_script_are_drawn_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_image(chart.chart_image(run(node("加载检查点 $x_1$ 🚀"), node("a $ b_^{ $"))))


def test_without_matplotlib_the_image_says_so(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    image = chart.chart_image(run(node()))
    assert_image(image)
    assert 0 < float((image < 0.5).float().mean()) < 0.2


def test_without_a_record_the_image_says_so():
    assert_image(chart.report_image(None))
