"""A tiny diffusion transformer with random weights, loaded the way real files are."""

import comfy.ldm.wan.model
import comfy.model_management
import comfy.model_patcher
import comfy.ops
import comfy.sd
import comfy.supported_models
import torch

from .sweep import ProbeNode


class TinyModel(ProbeNode):
    """A diffusion model with random weights, two texts and a latent, which are made once."""

    RETURN_TYPES = ("MODEL", "CONDITIONING", "CONDITIONING", "LATENT")
    OUTPUT_NODE = False

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""


def filled(generator, *modules):
    """Give the modules random weights; return a patcher of each."""
    for weight in [one for module in modules for one in module.parameters()]:
        torch.nn.init.normal_(weight, 0, 0.1, generator)
    return [comfy.model_patcher.CoreModelPatcher(
        module, comfy.model_management.get_torch_device(), torch.device("cpu"))
        for module in modules]


class OomTinyWan(TinyModel):
    """A Wan video model of a few hundred kilobytes with two texts and a latent."""

    INPUTS = {"batch": ("INT", {"default": 1})}

    def run(self, batch):
        generator = torch.Generator().manual_seed(11)
        network = comfy.ldm.wan.model.WanModel(
            model_type="t2v", dim=128, ffn_dim=256, freq_dim=256, text_dim=4096, out_dim=16,
            num_heads=1, num_layers=2, operations=comfy.ops.disable_weight_init,
            device="cpu", dtype=torch.float32,
        )
        weights = {
            name: torch.randn(value.shape, generator=generator) * 0.02
            for name, value in network.state_dict().items()
        }
        model = comfy.sd.load_diffusion_model_state_dict(weights)
        text = [
            [[torch.randn(1, length, 4096, generator=generator), {}]] for length in (20, 12)
        ]
        return model, *text, {"samples": torch.zeros(batch, 16, 3, 8, 8)}


class OomTinyZImage(TinyModel):
    """A Z-Image model with a ControlNet as its patch, two texts and a latent."""

    def run(self):
        from comfy.ldm.lumina.controlnet import ZImage_Control  # newer ComfyUIs
        from comfy_extras.nodes_model_patch import ZImageControlPatch

        common = {"n_heads": 4, "n_kv_heads": 4, "dim": 256, "qk_norm": True}
        config = comfy.supported_models.ZImage({
            "image_model": "lumina2", "in_channels": 16, "patch_size": 2, "n_layers": 4,
            "ffn_dim_multiplier": 1.0, "cap_feat_dim": 32, "axes_dims": [16, 24, 24],
            "axes_lens": [64, 64, 64], "rope_theta": 256.0, "z_image_modulation": True,
            "time_scale": 1000.0, "pad_tokens_multiple": 32, **common})
        config.set_inference_dtype(torch.float32, None)
        network = config.get_model({}, "")
        control = ZImage_Control(**common, additional_in_dim=17, n_control_layers=15,
                                 refiner_control=True, dtype=torch.float32,
                                 operations=comfy.ops.manual_cast)
        generator = torch.Generator().manual_seed(11)
        model, patch = filled(generator, network, control)
        model = model.clone()
        applied = ZImageControlPatch(patch, _SmallVAE(), torch.rand(1, 128, 128, 3,
                                                                    generator=generator), 1.0)
        model.set_model_noise_refiner_patch(applied)
        model.set_model_double_block_patch(applied)
        text = [[[torch.randn(1, 8, 32, generator=generator), {}]] for _ in range(2)]
        return model, *text, {"samples": torch.zeros(2, 16, 16, 16)}


class OomTinyFlux2(TinyModel):
    """A Flux 2 model with Flux KV Cache, two texts with a reference image and a latent."""

    def run(self):
        from comfy_extras.nodes_flux import FluxKVCache  # newer ComfyUIs

        config = comfy.supported_models.Flux2({
            "image_model": "flux2", "in_channels": 128, "out_channels": 128, "vec_in_dim": None,
            "context_in_dim": 32, "hidden_size": 64, "mlp_ratio": 3.0, "num_heads": 2, "depth": 1,
            "depth_single_blocks": 1, "axes_dim": [8, 8, 8, 8], "theta": 2000, "patch_size": 1,
            "qkv_bias": False, "txt_ids_dims": [3], "guidance_embed": False, "ops_bias": False,
            "global_modulation": True, "mlp_silu_act": True, "ref_index_scale": 10.0})
        config.set_inference_dtype(torch.float32, None)
        network = config.get_model({}, "")
        generator = torch.Generator().manual_seed(11)
        [model] = filled(generator, network)
        seen = {"reference_latents": [torch.randn(1, 128, 4, 4, generator=generator)]}
        text = [[[torch.randn(1, 8, 32, generator=generator), dict(seen)]] for _ in range(2)]
        return (FluxKVCache.execute(model).args[0], *text, {"samples": torch.zeros(2, 128, 4, 4)})


class OomTinyAnimate2(TinyModel):
    """A Wan Animate 2 model with its cache in 8 bits, two texts and a latent."""

    def run(self):
        import comfy_kitchen  # newer ComfyUIs
        from comfy_extras.nodes_wan import WanAnimate2Cache

        comfy_kitchen.registry.disable("cuda")  # its kernels need a driver
        config = comfy.supported_models.WAN_Animate2({
            "image_model": "wan2.1", "model_type": "animate2", "in_dim": 36, "dim": 128,
            "ffn_dim": 128, "freq_dim": 64, "text_dim": 32, "out_dim": 16, "num_heads": 1,
            "num_layers": 2})
        config.set_inference_dtype(torch.float32, None)
        network = config.get_model({}, "")
        generator = torch.Generator().manual_seed(11)
        [model] = filled(generator, network)
        seen = {"concat_latent_image": torch.randn(1, 16, 4, 8, 8, generator=generator),
                "concat_mask": torch.ones(1, 1, 4, 8, 8),
                "pose_video_latent": torch.randn(1, 16, 3, 8, 8, generator=generator)}
        text = [[[torch.randn(1, 8, 32, generator=generator), dict(seen)]] for _ in range(2)]
        cached = WanAnimate2Cache.execute(model, "cpu", "int8").args[0]
        return cached, *text, {"samples": torch.zeros(1, 16, 4, 8, 8)}


class _SmallVAE:
    """Encodes on the CPU."""

    def encode(self, pixels):
        return pixels.movedim(-1, 1)[:, :1, ::8, ::8].repeat(1, 16, 1, 1)

    def spacial_compression_encode(self):
        return 8
