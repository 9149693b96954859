"""ComfyUI's own page at the address of a farm."""

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import OpenDoor, wait_until  # noqa: E402
from support.prompts import picture  # noqa: E402

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def door(sim, tmp_path):
    opened = OpenDoor(tmp_path, [sim(2048).url])
    wait_until(lambda: opened.states() == ["idle"])
    yield opened
    opened.close()


def test_the_page_queues_and_shows_progress_and_the_picture_from_its_server(door, open_page):
    comfy = open_page(door).load_prompt(picture(seed=1))
    told = comfy.listen("execution_start", "executed", "execution_success")
    comfy.queue()
    history = comfy.until(lambda: comfy.get("/history"))
    comfy.page.wait_for_function(
        "() => Object.values(app.nodeOutputs ?? {}).some(out => out.images?.length)")
    assert {"execution_start", "executed", "execution_success"} <= set(told())
    shown = comfy.page.evaluate(
        "() => Object.values(app.nodeOutputs).flatMap(out => out.images ?? [])")
    [entry] = history.values()
    assert entry["status"]["status_str"] == "success" and shown[0]["subfolder"].startswith("@")
    answer = comfy.page.request.get(f"{door.url}/view", params=shown[0])
    assert answer.status == 200 and answer.headers["content-type"] == "image/png"
