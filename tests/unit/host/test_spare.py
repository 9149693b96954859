"""RAM that ComfyUI frees by functions of its own, on a stand-in of it."""

from support.comfyui import on_comfyui


def test_comfyuis_cache_drops_no_more_than_is_asked_where_it_counts_within_a_container(monkeypatch):
    """500 bytes are left in it. By the RAM of the whole machine ComfyUI would drop all it has."""
    asked = []
    spare = on_comfyui(
        monkeypatch, "spare", ours__features={"lost": lambda feature: None},
        comfy__model_management={"get_free_memory": lambda device: 500},
        comfy__memory_management={"extra_ram_release": asked.append})
    spare.release_cached_results(300)
    assert asked == [800]
