"""A real server that is always short of RAM: idle models live on disk, pictures stay the same."""

import pytest
from support.rescue import pictures

from tools.graph import picture
from tools.waiting import wait_until

pytestmark = pytest.mark.host
WENT = "went to disk"


SHORT_OF_RAM = {"HEADROOM_RAM_FREE_MIB": str(10**9)}


@pytest.fixture(scope="module")
def server(serve):
    return serve(env=SHORT_OF_RAM)


def said(server):
    asked = "are to stay free (HEADROOM_RAM_FREE_MIB)"
    return [line for line in server.log_text().splitlines() if asked in line]


def test_idle_models_go_to_disk_in_one_line_and_come_back_bit_by_bit(server):
    client = server.client()
    first = pictures(client, client.run(picture(seed=1).prompt))
    wait_until(lambda: any(WENT in line for line in said(server)), 60)
    went = [line for line in said(server) if WENT in line]
    assert len(went) == 1 and "idle models went to disk" in went[0]
    client.run(picture(seed=2).prompt)
    assert pictures(client, client.run(picture(seed=1).prompt)) == first
    assert "Traceback" not in server.log_text()


def test_what_a_waiting_prompt_names_stays_between_two_prompts(serve, newest_comfyui):
    """Which files a model came from is known where ComfyUI remembers it, as newer ones do."""
    server = serve(env=SHORT_OF_RAM, comfyui=newest_comfyui)
    client = server.client()
    lines = len(said(server))
    ids = [client.queue(picture(seed=seed).prompt) for seed in range(10, 13)]
    for prompt_id in ids:
        assert client.wait(prompt_id)["status"]["status_str"] == "success"
    assert not any(WENT in line for line in said(server)[lines:])
