"""Hide each symbol of the host's table from the pack in turn, and run prompts: a program.

    python moved_host.py COMFYUI PACK FOLDER [SYMBOL ...]

Prints in lines of JSON what that ComfyUI lacks, [needed, only asked for], and what it answers about
flags and free memory; then a line a symbol.
With HEADROOM_EACH_SYMBOL_ALONE set each symbol has a fork of its own.

A ComfyUI without a socket is made once and forked for each symbol that only its users ask for;
those that cost the same features are hidden together in one fork, as none of what uses them runs
then. Only the pack's frames do not see a symbol, or see it with other parameters: ComfyUI itself
goes on using it, as a newer one uses what it has in its place.
"""

import asyncio
import gc
import importlib.util
import json
import logging
import os
import sys
from pathlib import Path

TREE, PACK, FOLDER, *ONLY = sys.argv[1:]
sys.argv[1:] = ["--cpu", "--user-directory", FOLDER, "--temp-directory", FOLDER]
os.chdir(TREE)
sys.path.insert(0, TREE)
import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()
import utils.extra_config  # noqa: E402, F401

# isort: split
import comfy.ldm.modules.diffusionmodules.mmdit as mmdit  # noqa: E402
import comfy.ops  # noqa: E402
import comfy.sd  # noqa: E402
import comfy.taesd.taesd  # noqa: E402
import execution  # noqa: E402
import server  # noqa: E402
import torch  # noqa: E402
from aiohttp.test_utils import make_mocked_request  # noqa: E402

import nodes  # noqa: E402

# isort: split
from moved_fork import in_a_fork  # noqa: E402
from moved_prompts import FAILS, FINISHES, Clip, RunsOut  # noqa: E402
from moved_symbols import NAME, hide, is_there, otherwise  # noqa: E402

ANSWERS = "answers.jsonl"  # in FOLDER


LATE = ("host", "rescue.attach")  # these import ComfyUI, so each fork imports them anew


# ---------------------------------------------------------------- a server without a socket


def begin():
    """A ComfyUI with the pack imported and not yet started, and what the prompts need."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    made = server.PromptServer.__new__(server.PromptServer)
    server.FrontendManager.init_frontend = classmethod(lambda *_: FOLDER)
    made.__init__(loop)
    spec = importlib.util.spec_from_file_location(NAME, f"{PACK}/__init__.py")
    pack = sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pack)
    for file in sorted(Path(PACK, "headroom").rglob("*.py")):
        inner = ".".join(file.relative_to(Path(PACK, "headroom")).with_suffix("").parts)
        if not inner.startswith(LATE):
            importlib.import_module(f"{NAME}.headroom.{inner.removesuffix('.__init__')}")
    generator = torch.Generator().manual_seed(1)
    network = mmdit.OpenAISignatureMMDITWrapper(
        input_size=None, in_channels=16, depth=1, adm_in_channels=2048, num_patches=64,
        pos_embed_max_size=8, device="cpu", dtype=torch.float32,
        context_embedder_config={"target": "torch.nn.Linear",
                                 "params": {"in_features": 4096, "out_features": 64}},
        operations=comfy.ops.disable_weight_init,
    )
    pixels = comfy.taesd.taesd.TAESD(latent_channels=16)
    Tiny.made = (comfy.sd.load_diffusion_model_state_dict(random(network, generator)),
                 comfy.sd.VAE(sd=random(pixels, generator)), Clip(),
                 [[torch.randn(1, 4, 4096), {"pooled_output": torch.randn(1, 2048)}]],
                 {"samples": torch.zeros(1, 16, 4, 4)})
    nodes.NODE_CLASS_MAPPINGS.update({"Tiny": Tiny, "RunsOut": RunsOut})
    return pack, made, loop


def random(module, generator):
    return {name: torch.randn(value.shape, generator=generator) * 0.02
            for name, value in module.state_dict().items()}


class Tiny:
    """A model of one block, a VAE, a CLIP, a conditioning and a latent."""

    RETURN_TYPES = ("MODEL", "VAE", "CLIP", "CONDITIONING", "LATENT")
    FUNCTION, CATEGORY = "give", "test"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    def give(self):
        """The model runs out of memory once, where there is a guard that helps."""
        model, *others = self.made
        is_guarded = not sys.modules[f"{NAME}.headroom.host.features"].lost("guard")
        model, failed = model.clone(), [] if is_guarded else [True]

        def fails_once(apply, given):
            if not failed:
                failed.append(True)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")
            return apply(given["input"], given["timestep"], **given["c"])

        model.set_model_unet_function_wrapper(fails_once)
        return model, *others


class Said(logging.Handler):
    """Collects what the pack logs, and its tracebacks."""

    def __init__(self):
        super().__init__()
        self.lines, self.tracebacks = [], []

    def emit(self, record):
        if record.name == "headroom":
            (self.tracebacks if record.exc_info else self.lines).append(record.getMessage())
            if record.exc_info:
                self.tracebacks.append(str(record.exc_info[1]))


def run_all(pack, made, loop):
    """Start the pack, run both prompts, and tell how it went."""
    said = Said()
    logging.getLogger("headroom").addHandler(said)
    extension = loop.run_until_complete(pack.comfy_entrypoint())
    for kind in loop.run_until_complete(extension.get_node_list()):
        kind.RELATIVE_PYTHON_MODULE = f"custom_nodes.{NAME}"
        nodes.NODE_CLASS_MAPPINGS[kind.GET_SCHEMA().node_id] = kind
    loop.run_until_complete(on_startup(made.app))
    sizes = dict.fromkeys(("ram", "ram_inactive", "lru"), 0)
    executor = execution.PromptExecutor(made, execution.CacheType.CLASSIC, sizes)
    lost = sys.modules[f"{NAME}.headroom.host.features"].lost
    outputs = ["8", "9", "10", "11", *([] if lost("sorter") else ["14"])]
    told = {"finishes": prompt_worker(made, executor, "finishes", FINISHES, outputs),
            "fails": prompt_worker(made, executor, "fails", FAILS, ["2"])}
    routes = {(one.method, one.path): one.handler for one in made.routes}
    for name in ("memory", "runs"):
        handler = routes.get(("GET", f"/headroom/{name}"))
        request = make_mocked_request("GET", f"/headroom/{name}")
        told[name] = handler and json.loads(loop.run_until_complete(handler(request)).body)
    return {**told, "lines": said.lines, "tracebacks": said.tracebacks}


async def on_startup(app):
    app.on_startup.freeze()
    await app.on_startup.send(app)


def prompt_worker(made, executor, name, prompt, outputs):
    """One prompt as ComfyUI's own function of this name runs it; its error, or None."""
    made.trigger_on_prompt({"prompt": prompt})
    made.prompt_queue.put((0, name, prompt, {}, outputs, {}))
    item, number = made.prompt_queue.get()
    executor.execute(item[2], name, item[3], item[4])
    made.prompt_queue.task_done(
        number, executor.history_result, process_item=lambda one: one[:5],
        status=execution.PromptQueue.ExecutionStatus(
            "success" if executor.success else "error", executor.success,
            executor.status_messages),
    )
    logging.info("Prompt executed")
    errors = [one for kind, one in executor.status_messages if kind == "execution_error"]
    return errors[0]["exception_message"] if errors else None


def answers():
    """Which of some flags exist, and the free memory with and without a driver's answer."""
    core, adapter = (importlib.import_module(f"{NAME}.headroom.host.{name}")
                     for name in ("core", "adapter"))
    flags = [one for one in ("--reserve-vram", "--fast", "--no-such-flag", "--cpu")
             if adapter.has_flag(one)]

    def refuses(device):
        raise RuntimeError("The device doesn't support querying the available free memory.")

    free = core.available_bytes(torch.device("cpu"))
    core.mm.get_free_memory = refuses
    return [flags, free > 0, core.available_bytes(torch.device("cpu"))]


def main():
    logging.getLogger().setLevel(logging.INFO)
    place = begin()
    contract = sys.modules[f"{NAME}.headroom.host.contract"]
    broken = sys.modules[f"{NAME}.headroom.host.symbols"].broken
    found = [broken(table) for table in contract.CONTRACT.values()]
    lacks = [sum((one[kind] for one in found), []) for kind in (0, 1)]
    told = Path(FOLDER, ANSWERS).open("w")
    print(json.dumps([*lacks, in_a_fork(answers)]), file=told, flush=True)
    gc.collect()
    gc.freeze()
    cases = {("", "", None): ([], [])}
    owners = {path.removeprefix("?") for table in contract.CONTRACT.values() for path in table}
    for feature, table in contract.CONTRACT.items():
        for path, members in table.items():
            for member in members:
                bare, bracket, _ = member.removeprefix("?").partition("(")
                for instead in (None, otherwise) if bracket else (None,):
                    case = cases.setdefault((path.removeprefix("?"), bare, instead), ([], []))
                    case["?" in path + member].append(feature)
    groups = {}
    for (path, bare, instead), (needed, asked_for) in cases.items():
        is_call = (path, bare, otherwise) in cases
        if ONLY and f"{path}.{bare}" not in ONLY or bare and not is_there(path, bare, is_call):
            continue
        # With other parameters it costs the features too that only ask for it.
        costs = frozenset(needed if instead is None else [*needed, *asked_for])
        # Who hides a class hides what is asked of it.
        is_alone = not costs or "HEADROOM_EACH_SYMBOL_ALONE" in os.environ
        apart = (path, bare) if is_alone else f"{path}.{bare}" in owners
        groups.setdefault((costs, instead, apart), []).append((path, bare))
    for (costs, instead, _), symbols in groups.items():

        def work(costs=costs, instead=instead, symbols=symbols):
            hidden = [one for one in symbols if one[1] and hide(*one, instead)]
            lacking = [one for owners in contract.CONTRACT.values() for one in broken(owners)[0]]
            noticed = {name.partition("(")[0] for name in lacking}
            return {**run_all(*place), "features": sorted(costs if hidden else ()),
                    "noticed": sorted(noticed)}

        answer = in_a_fork(work)
        noticed = set(answer.pop("noticed", ()))
        for path, bare in symbols:
            is_noticed = not answer.get("features") or f"{path}.{bare}" in noticed
            print(json.dumps({"symbol": f"{path}.{bare}", "is_otherwise": instead is not None,
                              "is_noticed": is_noticed, **answer}), file=told, flush=True)


main()
