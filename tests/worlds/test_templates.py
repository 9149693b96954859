"""Every template that a ComfyUI offers, as a prompt and guarded: its own validation accepts both.

There is no server: a process imports ComfyUI, on the CPU, and is asked. Prompts are guarded by
`guarded` of tools/fit_prompt.py, which calls what a rerun calls.
"""

import json
from collections import Counter

import pytest
from support.validator import Validator

from tools import models, public_models
from tools.errors import DevError, NotHere
from tools.fit_files import READABLE, UNREADABLE, named
from tools.fit_packs import NO_NODE
from tools.fit_prompt import ObjectInfo, guarded
from tools.node_info import node_infos
from tools.template_package import files_of, templates_of
from tools.ui_prompt import BYPASSED, MUTED, api_prompt

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
    """The results of the templates on one host."""

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


def told_sizes(folder):
    """The bytes of all models that a template needs, as its package tells it; by its name."""
    [index] = [path for path in files_of(folder) if path.name == "index.json"]
    groups = json.loads(index.read_text(encoding="utf-8"))
    return {one["name"]: int(one.get("size") or 0) for group in groups
            for one in group["templates"]}


def templates_or_skip(folder):
    try:
        return templates_of(folder)
    except (NotHere, DevError) as error:
        pytest.skip(f"needs the templates of {folder}: {error}")


@pytest.mark.parametrize("tree", ["comfyui", "newest_comfyui"])
def test_every_template_is_valid_as_it_is_and_with_guards(tree, request, tmp_path, capsys):
    folder = request.getfixturevalue(tree)
    templates = templates_or_skip(folder)
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


# The package tells another template's size, or of fewer of its files, or of a larger number type.
TOLD_WRONGLY = (
    "3d_hunyuan3d-v2.1", "flux_fill_outpaint_example", "audio_ace_step_1_5_split_llm",
    "hidream_e1_full", "hidream_i1_fast", "hidream_i1_full", "image_chroma_text_to_image",
    "image_ernie_image", "image_ernie_image_turbo", "image_flux2_klein_image_edit_4b_base",
    "image_flux2_klein_text_to_image", "image_mage_flow_turbo_t2i_int8", "ltxv_image_to_video",
    "sd3.5_large_depth", "utility_video_frame_interpolation", "video_hunyuan_video_1.5_720p_i2v",
    "video_hunyuan_video_1.5_720p_t2v", "video_ltx2_5_flf2v", "video_ltx2_5_i2v",
    "video_ltx2_5_t2v", "video_ltx2_i2v_distilled", "video_ltx2_t2v_distilled",
)
# Their text encoders hold an eye, or a decoder, which ComfyUI does not load.
MORE_IN_THE_FILE = (
    "audio_stable_audio_3_medium", "audio_stable_audio_3_medium_base",
    "audio_stable_audio_example", "image_omnigen2_image_edit", "image_omnigen2_t2i",
    "image_ovis_text_to_image",
)
# Ours is off: which layers a file leaves in 16 bits is not known (qwen_3_4b_fp8_mixed has 1.2 GB
# of them that we count in 8), nor which have their embeddings in 8 (each 0.6 GB less than ours).
OTHER_LAYERS_QUANTISED = (
    "image_boogu_image_0_1_edit", "image_boogu_image_0_1_turbo_t2i", "image_hidream_o1_dev",
    "image_ideogram4_t2i", "image_z_image_turbo_int8", "utility_pid_latent_upscale_dit",
)
# GB and GiB are told as if they were the same, so that a size can be told 7 % too large.
LEAST, MOST, ROUNDED = 0.93, 1.01, 50e6


def used_files(workflow):
    """The model files that the nodes of a file name, those that are switched off left out."""
    graphs = [workflow, *((workflow.get("definitions") or {}).get("subgraphs") or [])]
    values = [node.get("widgets_values") for graph in graphs for node in graph["nodes"]
              if node.get("mode", 0) not in (MUTED, BYPASSED) and "Note" not in node["type"]]
    return named(values, READABLE + UNREADABLE)


@pytest.fixture(scope="module")
def asked(newest_comfyui):
    """Of files that are known by name: sizes by template, and what ComfyUI takes models for.

    One process tells both, since its start is most of what this takes.
    """
    templates, told = templates_or_skip(newest_comfyui), told_sizes(newest_comfyui)
    places = {name: [public_models.known(file)[:1] for file in used_files(workflow)]
              for name, workflow in templates.items() if told.get(name)
              and name not in TOLD_WRONGLY + MORE_IN_THE_FILE + OTHER_LAYERS_QUANTISED}
    places = {name: {place for [place] in found} for name, found in places.items()
              if found and all(found)}
    diffusion = sorted({part.made_by for place, [part, *_] in public_models.PUBLIC.items()
                        if place.startswith("diffusion_models/") and not part.prefix}, key=str)
    kinds = {}

    def ask(wanted):
        tell = models.asking(newest_comfyui, public_models.SCRIPT)
        shapes = list(tell([*wanted, *(("recognised_as", *one) for one in diffusion)]))
        kinds.update(zip(diffusion, shapes[len(wanted):], strict=True))
        return shapes[:len(wanted)]

    made = public_models.sparse_files(sorted(set().union(*places.values())), ask)
    sizes = {name: (sum(made[place].nbytes for place in found), told[name])
             for name, found in places.items()}
    return sizes, kinds


def test_files_that_are_known_by_name_have_the_sizes_that_templates_tell(asked):
    sizes, _ = asked
    assert len(sizes) > 10
    assert {name: size / told for name, (size, told) in sizes.items()
            if not LEAST * told < size < MOST * told + ROUNDED} == {}


def test_comfyui_recognises_each_diffusion_model_that_is_known_by_name(asked):
    _, kinds = asked
    assert kinds and [one for one, kind in kinds.items() if not kind] == []
