"""Every symbol of ComfyUI that headroom/host/ uses, and how: as data, to be checked in any host.

A call is written as it is made, `_` for a value, `...` for others; a name alone is an attribute.
"?" marks what not every host has: headroom/host/ asks for it first. Attributes that objects get
while they are made are looked for in the source of their class.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

CONTRACT: Mapping[str, Iterable[str]] = {
    "comfy.model_management": (
        "current_loaded_models", "InterruptProcessingException", "OOM_EXCEPTION",
        "cleanup_models()", "free_memory(_, _, _)", "get_free_memory(_)", "get_torch_device()",
        "load_models_gpu(_)", "load_models_gpu(_, memory_required=_)",
        "processing_interrupted()", "soft_empty_cache()",
        "should_use_bf16(_)", "should_use_fp16(_)", "text_encoder_device()",
        "text_encoder_dtype(_)", "throw_exception_if_processing_interrupted()",
        "?is_oom(_)", "?get_all_torch_devices()", "?reset_cast_buffers()", "?NUM_STREAMS",
        "?STREAM_CAST_BUFFERS", "?STREAM_AIMDO_CAST_BUFFERS", "?get_offload_stream(_)",
        "?get_aimdo_cast_buffer(_, _)",
    ),
    "comfy.model_management.LoadedModel": ("model", "device"),
    "comfy.model_patcher.ModelPatcher": (
        "model", "parent", "size", "load_device", "offload_device", "model_options", "backup",
        "pinned", "object_patches", "object_patches_backup", "hook_backup", "cached_hook_patches",
        "additional_models", "wrappers", "injections", "is_clip", "clone()", "is_clone(_)",
        "cleanup()", "clean_hooks()", "loaded_size()", "model_size()", "model_dtype()",
        "partially_unload(_, _)", "add_wrapper_with_key(_, _, _)",
        "remove_wrappers_with_key(_, _)", "get_nested_additional_models()",
        "model_patches_models()", "_load_list()",
        "?clone(model_override=_)", "?clone_base_uuid", "?cached_patcher_init", "?is_dynamic()",
        "?partially_unload_ram(_)", "?_load_list(default_device=_)",
    ),
    "comfy.model_base.BaseModel": (
        "apply_model", "memory_required(_)", "diffusion_model", "latent_format", "model_config",
        "manual_cast_dtype", "current_patcher",
    ),
    "comfy.model_patcher": (  # what a patcher notes on its model
        "ModelPatcher", "model_loaded_weight_memory", "lowvram_patch_counter", "model_lowvram",
        "current_weight_patches_uuid", "model_offload_buffer_memory", "comfy_patched_weights",
    ),
    "comfy.ops": ("?_prefetch", "?_v_signature"),
    "comfy.ops.CastWeightBiasOp": ("comfy_cast_weights",),
    "comfy.latent_formats.LatentFormat": ("?spacial_downscale_ratio",),
    "comfy.sd": ("CLIP", "VAE"),
    "comfy.sd.CLIP": ("patcher", "clone()"),
    "comfy.sd.VAE": ("working_dtypes", "size", "model_size()"),
    "comfy.controlnet.ControlBase": ("cleanup()", "?multigpu_clones"),
    "comfy.samplers": ("pre_run_control(_, _)",),
    "comfy.samplers.CFGGuider": ("conds", "loaded_models", "model_patcher"),
    "comfy.sampler_helpers": ("cleanup_models(_, _)", "get_additional_models(_, _)"),
    "comfy.patcher_extension.WrappersMP": (
        "OUTER_SAMPLE", "PREPARE_SAMPLING", "PREDICT_NOISE", "CALC_COND_BATCH", "APPLY_MODEL",
        "DIFFUSION_MODEL",
    ),
    "comfy.patcher_extension.WrapperExecutor": ("class_obj",),
    "comfy.sd1_clip": ("__file__",),
    "comfy.utils": (
        "ProgressBar(_)",
        "tiled_scale(_, _, tile_x=_, tile_y=_, overlap=_, upscale_amount=_, out_channels=_, "
        "output_device=_)",
    ),
    "comfy.cli_args": ("args",),
    "comfy.cli_args.args": ("?cache_none",),
    "?comfy.memory_management": ("aimdo_enabled",),
    "?comfy.model_prefetch": (
        "cleanup_prefetch_queues()", "cleanup_prefetched_modules(_, _)", "?pause_malloc_graph()",
    ),
    "?comfy_extras.nodes_multigpu.SelectCLIPDeviceNode": ("execute(_, _)",),
    "?comfy_aimdo.model_vbar": ("vbars_reset_watermark_limits()",),
    "?comfy_aimdo.control": ("?get_simple_vram_headroom()", "?set_simple_vram_headroom(_)"),
    "comfy_api.internal": ("first_real_override(_, _)",),
    "comfy_api.latest.io.NodeOutput": ("args",),
    "comfy_execution.graph_utils": ("ExecutionBlocker(_)",),
    "comfy_execution.graph": ("DynamicPrompt(_)",),
    "comfy_execution.graph.DynamicPrompt": (
        "has_node(_)", "get_node(_)", "get_parent_node_id(_)", "get_display_node_id(_)",
        "get_original_prompt()",
    ),
    "comfy_execution.progress": ("get_progress_state()", "reset_progress_state(_, _)"),
    "comfy_execution.progress.ProgressHandler": (
        "name", "start_handler(_, _, _)", "finish_handler(_, _, _)", "reset()",
    ),
    "comfy_execution.progress.ProgressRegistry": (
        "handlers", "nodes", "prompt_id", "dynprompt", "register_handler(_)",
    ),
    "comfy_execution.utils": ("get_executing_context()",),
    "comfy_execution.utils.ExecutionContext": ("prompt_id", "node_id", "list_index"),
    "execution": (
        "nodes", "CacheSet", "IsChangedCache(_, _, _)", "validate_prompt(_, _, _)",
        "execute(..., caches=_)",
    ),
    "execution.CacheSet": ("outputs",),
    "execution.IsChangedCache": ("get(_)",),
    "comfy_execution.caching": ("NullCache",),
    "comfy_execution.caching.NullCache": ("get",),
    "comfy_execution.caching.BasicCache": ("cache", "key_class"),
    "comfy_execution.caching.CacheKeySet": ("add_keys(_)", "get_data_key(_)"),
    "execution.PromptQueue": (
        "mutex", "put(_)", "set_flag(_, _)", "get_flags(reset=_)", "get_tasks_remaining()",
        "get_current_queue_volatile()", "get_history(prompt_id=_)", "?get_history(map_function=_)",
    ),
    "folder_paths": (
        "folder_names_and_paths", "exists_annotated_filepath(_)", "get_annotated_filepath(_)",
        "get_folder_paths(_)", "get_temp_directory()", "get_user_directory()",
    ),
    "nodes": ("NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"),
    "server.PromptServer": (
        "instance", "app", "loop", "client_id", "prompt_queue", "routes",
        "add_on_prompt_handler(_)", "send_sync(_, _, _)", "?user_manager",
    ),
    "app.user_manager.UserManager": ("settings",),
    "app.app_settings.AppSettings": ("get_settings(_)",),
}


def broken(contract: Mapping[str, Iterable[str]] = CONTRACT) -> tuple[list[str], list[str]]:
    """Return (what this host lacks or takes otherwise, the "?" symbols that it lacks)."""
    failed: tuple[list[str], list[str]] = [], []
    for path, members in contract.items():
        module, owner = _find(path.removeprefix("?"))
        for member in members:
            name = member.removeprefix("?")
            if owner is None or not _fits(module, owner, name):
                optional = path.startswith("?") or member.startswith("?")
                failed[optional].append(f"{path.removeprefix('?')}.{name}")
    return failed


def _find(path: str) -> tuple[ModuleType | None, Any]:
    """Return the module that holds what `path` names, and that; Nones where it is not there."""
    try:
        found = importlib.import_module(path)
        return found, found
    except ImportError:
        parent, _, name = path.rpartition(".")
        module, owner = _find(parent) if parent else (None, None)
        return module, getattr(owner, name, None)


def _fits(module: ModuleType | None, owner: Any, text: str) -> bool:
    """Return whether `owner` has this attribute, or takes this call."""
    wanted = ast.parse(text, mode="eval").body
    if not isinstance(wanted, ast.Call):
        return hasattr(owner, text) or _is_set(module, owner, text)
    name = text.partition("(")[0]
    function = getattr(owner, name, None)
    if function is None:
        return False
    is_method = inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name))
    given = [one for one in wanted.args if isinstance(one, ast.Name)]
    signature = inspect.signature(function)
    bind = signature.bind if given == wanted.args else signature.bind_partial
    try:
        bind(*["_"] * (len(given) + is_method), **{str(one.arg): "_" for one in wanted.keywords})
    except TypeError:
        return False
    return True


def _is_set(module: ModuleType | None, owner: Any, name: str) -> bool:
    """Return whether the source of `owner`, a class or a module, sets an attribute `name`."""
    places = [one for one in getattr(owner, "__mro__", [module]) if one is not object]
    try:
        sources = [inspect.getsource(one) for one in places]
    except (OSError, TypeError):
        return True  # not written in Python, or without its source: nobody can tell
    return any(re.search(rf"\.{name}\b(:[^=\n]+)? *=[^=]", source) for source in sources)
