"""ComfyUI's own page at the address of a farm."""

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import OpenDoor  # noqa: E402
from support.prompts import sampling  # noqa: E402

from farm.worker import Patience  # noqa: E402
from tools.waiting import LONGEST_SECONDS, wait_until  # noqa: E402

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def door(sim, tmp_path):
    opened = OpenDoor(tmp_path, [sim(2048).url], patience=Patience())
    wait_until(lambda: opened.states() == ["idle"])
    yield opened
    opened.close()


def test_the_page_queues_three_cancels_one_and_shows_progress_and_the_picture(door, open_page):
    comfy = open_page(door).load_prompt(sampling())
    told = comfy.listen("execution_start", "executed", "execution_success")
    comfy.page.evaluate("() => app.queuePrompt(0, 3)")
    waiting = comfy.until(lambda: comfy.get("/queue")["queue_pending"])
    cancelled = max((number, prompt_id) for number, prompt_id, *_ in waiting)[1]
    comfy.page.evaluate("id => app.api.deleteItem('queue', id)", cancelled)
    history = comfy.until(lambda: len(found := comfy.get("/history")) == 2 and found,
                          timeout=LONGEST_SECONDS)
    assert cancelled not in history and not any(comfy.get("/queue").values())
    comfy.page.wait_for_function(
        "() => Object.values(app.nodeOutputs ?? {}).some(out => out.images?.length)")
    assert {"execution_start", "executed", "execution_success"} <= set(told())
    shown = comfy.page.evaluate(
        "() => Object.values(app.nodeOutputs).flatMap(out => out.images ?? [])")
    assert {entry["status"]["status_str"] for entry in history.values()} == {"success"}
    assert shown[0]["subfolder"].startswith("@")  # of the server that made it
    answer = comfy.page.request.get(f"{door.url}/view", params=shown[0])
    assert answer.status == 200 and answer.headers["content-type"] == "image/png"
