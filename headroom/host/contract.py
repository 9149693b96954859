"""Every symbol of ComfyUI that the pack uses, and how; symbols.py checks this table in a ComfyUI.

A call is written as we make it, with `_` for a value and `...` for other arguments; a name alone is
an attribute. "?" marks what some ComfyUIs lack: headroom/host/ tests for it before use. If it is
there with other parameters, its whole feature is lost: what the pack can do without is a feature of
its own. Two calls of one name are its forms in different ComfyUIs; of two names both have a "?".
tests/worlds/releases.json notes what 53 releases have of it; tests/worlds/newer has what is newer
than these, and where it was seen.
Attributes that objects get when they are created are searched in the code of their class. What a
user loses without a feature, and which other features depend on it, is in features.py.
"""

from collections.abc import Iterable, Mapping

CONTRACT: Mapping[str, Mapping[str, Iterable[str]]] = {  # feature -> owner -> what is used of it
    "nodes": {
        "comfy.model_management": (
            "current_loaded_models", "cleanup_models()", "free_memory(_, _, _)",
            "get_free_memory(_)", "get_torch_device()", "soft_empty_cache()",
            "?TOTAL_PINNED_MEMORY",
        ),
        "comfy.model_management.LoadedModel": ("model", "device"),
        "comfy.model_patcher": (
            "ModelPatcher", "model_loaded_weight_memory", "?dynamic_vbars",
        ),
        "comfy.model_patcher.ModelPatcher": (
            "model", "load_device", "offload_device", "loaded_size()", "model_size()",
            "_load_list()", "get_nested_additional_models()", "model_patches_models()",
            "?cached_patcher_init", "?fast_disk", "?is_dynamic()", "?_load_list(default_device=_)",
        ),
        "?comfy.model_patcher.ModelPatcherDynamic": (
            "non_dynamic_delegate_model", "get_non_dynamic_delegate()", "detach()",
        ),
        "?comfy_aimdo.model_vbar.ModelVBAR": (
            "base_addr", "max_size", "unpin(_, _)", "?get_residency()",
        ),
        "?comfy.ldm.hidream_o1.model.HiDreamO1Transformer": ("clear_kv_cache()",),
        "?comfy.ldm.ace.lyric_encoder.EspnetRelPositionalEncoding": ("extend_pe(_)",),
        "?comfy.text_encoders.jina_clip_2.RotaryEmbedding": ("_update_cos_sin_cache(_, _, _)",),
        "?comfy.weight_adapter.bypass.BypassForwardHook": (
            "_move_adapter_weights_to_device(_)", "original_forward",
        ),
        "?comfy.weight_adapter.bypass.BypassInjectionManager": ("hooks",),
        "comfy.patcher_extension.PatcherInjection": ("?inject",),
        "?comfy.ldm.supir.supir_patch.SUPIRPatch": ("to(_)",),
        "comfy.cli_args.args": ("?fast_disk", "?disable_fast_disk"),
        "?comfy.memory_management": ("aimdo_enabled",),
        "comfy_execution.utils": ("get_executing_context()",),
        "comfy_execution.utils.ExecutionContext": ("prompt_id", "node_id", "list_index"),
        "execution.PromptQueue": ("set_flag(_, _)",),
        "folder_paths": ("get_temp_directory()",),
        "server.PromptServer": ("instance", "prompt_queue"),
    },
    "devices": {"comfy.model_management": ("?get_all_torch_devices()",)},
    "buffers": {
        "comfy.model_management": (
            "?reset_cast_buffers()", "?get_offload_stream(_)", "?get_aimdo_cast_buffer(_, _)",
        ),
    },
    "spare": {
        "comfy.model_management": ("?free_pins(_)",),
        "comfy.model_patcher.ModelPatcher": ("?partially_unload_ram(_)",),
        "?comfy.memory_management": ("?extra_ram_release(_)",),
    },
    "reserve": {
        "?comfy_aimdo.control": (
            "?get_simple_vram_headroom()", "?set_simple_vram_headroom(_)", "?lib", "?init()",
            "?init(simple_vram_headroom=_)", "?init(nvml_pressure=_)",
        ),
        "comfy.cli_args.args": ("?reserve_vram", "?vram_headroom", "?disable_nvml_pressure"),
    },
    "sorter": {"comfy_execution.graph_utils": ("ExecutionBlocker(_)",)},
    "guard": {
        "comfy.model_management": (
            "InterruptProcessingException", "OOM_EXCEPTION", "load_models_gpu(_)",
            "load_models_gpu(_, memory_required=_)", "throw_exception_if_processing_interrupted()",
            "?is_oom(_)", "?NUM_STREAMS", "?STREAM_CAST_BUFFERS", "?STREAM_AIMDO_CAST_BUFFERS",
        ),
        "comfy.model_patcher": ("comfy_patched_weights",),
        "comfy.model_patcher.ModelPatcher": (
            "model_options", "object_patches", "injections", "clone()", "cleanup()",
            "clean_hooks()", "model_dtype()", "partially_unload(_, _)",
            "add_wrapper_with_key(_, _, _)", "remove_wrappers_with_key(_, _)", "wrappers",
            "get_nested_additional_models()", "model_patches_models()", "model_patches_to(_)",
        ),
        "comfy.model_base.BaseModel": (
            "apply_model", "memory_required(_)", "latent_format", "current_patcher",
        ),
        "comfy.ops": ("?_prefetch", "?_v_signature"),
        "comfy.ops.CastWeightBiasOp": ("comfy_cast_weights",),
        "comfy.latent_formats.LatentFormat": ("?spacial_downscale_ratio",),
        "comfy.sd": ("CLIP", "VAE"),
        "comfy.sd.CLIP": ("patcher", "clone()"),
        "comfy.controlnet.ControlBase": ("cleanup()", "?timestep_range", "?cond_hint"),
        "comfy.samplers": ("pre_run_control(_, _)",),
        "comfy.samplers.CFGGuider": ("conds", "loaded_models", "model_patcher"),
        "comfy.sampler_helpers": ("cleanup_models(_, _)", "get_additional_models(_, _)"),
        "comfy.patcher_extension.WrappersMP": (
            "OUTER_SAMPLE", "PREPARE_SAMPLING", "PREDICT_NOISE", "CALC_COND_BATCH", "APPLY_MODEL",
            "DIFFUSION_MODEL",
        ),
        "comfy.patcher_extension.WrapperExecutor": ("class_obj",),
        "comfy.utils": (
            "tiled_scale(_, _, tile_x=_, tile_y=_, overlap=_, upscale_amount=_, out_channels=_, "
            "output_device=_)",
        ),
        "?comfy.model_prefetch": (
            "cleanup_prefetch_queues()", "?pause_malloc_graph()",
            "cleanup_prefetched_modules(_)", "cleanup_prefetched_modules(_, _)",
        ),
        "?comfy_aimdo.model_vbar": ("vbars_reset_watermark_limits()",),
        "?comfy.ldm.wan.model_animate2.PoseBranchCache": ("slots", "free()"),
    },
    "clip": {
        "?comfy_extras.nodes_multigpu.SelectCLIPDeviceNode": ("?execute(_, _)",),
        "comfy_api.latest.io.NodeOutput": ("args",),
    },
    "cast": {
        "comfy.model_management": ("should_use_bf16(_)", "should_use_fp16(_)"),
        "comfy.model_patcher": (  # what a patcher notes on its model
            "lowvram_patch_counter", "model_lowvram", "current_weight_patches_uuid",
            "model_offload_buffer_memory",
        ),
        "comfy.model_patcher.ModelPatcher": (
            "parent", "size", "backup", "pinned", "object_patches", "object_patches_backup",
            "hook_backup", "cached_hook_patches", "additional_models", "model_options", "wrappers",
            "is_clip", "clone()", "is_clone(_)", "?clone(model_override=_)", "?clone_base_uuid",
            "injections", "callbacks",
        ),
        "comfy.model_base.BaseModel": (
            "diffusion_model", "model_config", "manual_cast_dtype", "current_patcher",
        ),
        "comfy.sd.VAE": ("working_dtypes", "size", "model_size()"),
        "comfy.controlnet.ControlBase": ("?multigpu_clones",),
    },
    "files": {
        "comfy.model_management": (
            "text_encoder_device()", "text_encoder_dtype(_)",
            "throw_exception_if_processing_interrupted()",
        ),
        "comfy.sd1_clip": ("__file__",),
        "comfy_execution.graph.DynamicPrompt": ("get_node(_)", "has_node(_)", "all_node_ids()"),
        "comfy.utils": ("ProgressBar(_)",),
        "comfy.cli_args": ("args",),
        "comfy.cli_args.args": ("?preview_method", "?cache_ram"),
        "comfy.latent_formats.LatentFormat": ("?taesd_decoder_name",),
        "comfy_api.internal": ("first_real_override(_, _)",),
        "comfy_api.latest.io.Schema": ("?loop_boundary",),
        "server.PromptServer": ("instance", "?node_replace_manager"),
        "?app.node_replace_manager.NodeReplaceManager": ("apply_replacements(_)",),
        "execution.PromptQueue": ("get_current_queue_volatile()",),
        "folder_paths": (
            "folder_names_and_paths", "exists_annotated_filepath(_)",
            "get_annotated_filepath(_)", "get_filename_list(_)", "get_folder_paths(_)",
            "get_full_path(_, _)", "get_user_directory()",
        ),
        "execution": ("?CacheSet",),
        "execution.CacheSet": ("?objects", "?outputs"),
        "execution.PromptExecutor": ("?caches",),
        "comfy_execution.caching.BasicCache": (
            "?cache", "?subcaches", "?cache_key_set", "?dynprompt",
        ),
        "comfy_execution.caching.CacheKeySet": ("all_node_ids()", "get_data_key(_)"),
        "nodes": ("NODE_CLASS_MAPPINGS",),
    },
    "server": {
        "execution.PromptQueue": (
            "set_flag(_, _)", "get_flags(reset=_)", "get_tasks_remaining()",
            "get_current_queue_volatile()", "get_history(prompt_id=_, map_function=_)",
        ),
        "server.PromptServer": (
            "app", "loop", "client_id", "routes", "add_on_prompt_handler(_)",
            "send_sync(_, _, _)", "?user_manager",
        ),
        "app.user_manager.UserManager": ("settings", "get_request_user_id(_)"),
        "app.app_settings.AppSettings": ("get_settings(_)",),
    },
    "record": {
        "comfy_execution.caching": ("NullCache",),
        "comfy_execution.caching.NullCache": ("get",),
        "comfy_execution.graph": ("DynamicPrompt(_)",),
        "comfy_execution.graph.DynamicPrompt": (
            "has_node(_)", "get_node(_)", "get_parent_node_id(_)", "get_display_node_id(_)",
        ),
        "comfy_execution.progress": ("get_progress_state()", "reset_progress_state(_, _)"),
        "comfy_execution.progress.ProgressHandler": (
            "name", "start_handler(_, _, _)", "finish_handler(_, _, _)", "reset()",
            "?update_handler(_, _, _, _, _, _)",
        ),
        "comfy_execution.progress.ProgressRegistry": (
            "handlers", "nodes", "prompt_id", "dynprompt", "register_handler(_)",
        ),
        "execution": ("nodes",),
        "nodes": ("NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"),
    },
    "rerun": {
        "comfy.model_management": (
            "processing_interrupted()", "interrupt_current_processing(_)",
        ),
        "comfy.cli_args.args": ("?cache_none",),
        "comfy_execution.graph.DynamicPrompt": ("get_original_prompt()",),
        "execution": (
            "CacheSet", "IsChangedCache(_, _, _)", "validate_prompt(_, _, _)",
            "?execute(..., current_item=_)",
        ),
        "execution.CacheSet": ("outputs",),
        "execution.IsChangedCache": ("get(_)",),
        "comfy_execution.caching.BasicCache": ("cache", "key_class", "?cache_key_set"),
        "comfy_execution.caching.CacheKeySet": ("add_keys(_)", "get_data_key(_)"),
        "execution.PromptQueue": ("mutex", "put(_)"),
    },
    "outputs": {
        "?comfy_execution.cache_provider": (
            "CacheProvider", "CacheValue(outputs=_, ui=_)", "_serialize_cache_key(_)",
            "_contains_self_unequal(_)",
            "register_cache_provider(_)", "unregister_cache_provider(_)",
        ),
        "?comfy_execution.cache_provider.CacheContext": ("cache_key_hash",),
        "?execution.CacheEntry": ("outputs", "ui"),
    },
}
