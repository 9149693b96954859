"""Every template that a ComfyUI offers, as a prompt and guarded: its own validation accepts both.

There is no server: a process imports ComfyUI, on the CPU, and is asked. Prompts are guarded by
`guarded` of devtools/fit_prompt.py, which calls what a rerun calls.
"""

from collections import Counter

import pytest
from support.validator import Validator

from devtools.errors import DevError, NotHere
from devtools.fit_files import READABLE, UNREADABLE, named
from devtools.fit_packs import NO_NODE
from devtools.fit_prompt import ObjectInfo, guarded
from devtools.node_info import node_infos
from devtools.template_package import templates_of
from devtools.ui_prompt import api_prompt

INPUTS = (
    ".png", ".jpg", ".jpeg", ".webp", ".gif", ".mp4", ".webm", ".mov", ".mp3", ".wav", ".flac",
    ".m4a", ".ogg", ".glb", ".gltf", ".obj", ".fbx", ".stl", ".ply", ".splat", ".spz", ".ksplat",
    ".latent",
)
GUARD = "HeadroomOOMGuard"
# The node has gained a widget since they were made: ComfyUI's page shifts their values as well.
OUTGROWN = ("api_moonvalley_video_to_video_motion_transfer",
            "api_moonvalley_video_to_video_pose_control")


def files(templates, endings):
    """The names of files in them that a folder can hold."""
    return [name for name in named(templates, endings)
            if len(name) < 200 and not name.startswith("/") and ".." not in name]


class Tried:
    """What became of the templates on one host."""

    def __init__(self, host):
        self.host, self.infos = host, node_infos(host.object_info)
        self.registry = ObjectInfo(host.object_info)
        self.counts, self.wrong = Counter(), {}

    def template(self, name, workflow):
        self.counts["templates"] += 1
        try:
            prompt = api_prompt(workflow, self.infos)
        except DevError as error:
            self.counts["not converted"] += 1
            if not str(error).startswith(NO_NODE):
                self.wrong[name] = str(error)
            return
        self.counts["converted"] += 1
        if errors := self.host.errors(prompt):
            if name not in OUTGROWN:
                self.wrong[name] = errors
            return
        self.counts["valid"] += 1
        self.guarded(name, prompt)

    def guarded(self, name, prompt):
        found = guarded(prompt, self.registry)
        self.counts["guards"] += sum(node["class_type"] == GUARD for node in found.values())
        if any(found[key]["class_type"] != node["class_type"] for key, node in prompt.items()):
            self.wrong[name] = "guarding has lost a node"
        elif guarded(found, self.registry) != found:
            self.wrong[name] = "guarding twice is not guarding once"
        elif errors := self.host.errors(found):
            self.wrong[name] = errors
        else:
            self.counts["valid again"] += 1


@pytest.mark.parametrize("tree", ["comfyui", "newest_comfyui"])
def test_every_template_is_valid_as_it_is_and_with_guards(tree, request, tmp_path, capsys):
    folder = request.getfixturevalue(tree)
    try:
        templates = templates_of(folder)
    except (NotHere, DevError) as error:
        pytest.skip(f"needs the templates of {folder}: {error}")
    with Validator(folder, tmp_path, models=files(templates, READABLE + UNREADABLE),
                   inputs=files(templates, INPUTS)) as host:
        tried = Tried(host)
        for name, workflow in templates.items():
            tried.template(name, workflow)
    with capsys.disabled():
        print(f"\n{folder.name}: {dict(tried.counts)}")
    assert tried.wrong == {}
    assert tried.counts["valid again"] == tried.counts["valid"] > 0.9 * len(templates)
    assert tried.counts["guards"] > len(templates)
