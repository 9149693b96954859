"""Workflows with the nodes of `packs/headroom_world` in them, a function each."""

from tools.graph import picture


def _between(graph, giver, output, taker, name, class_type, given, **settings):
    """Put a node of the pack on one wire."""
    made = graph.add(class_type, **{given: [giver, output]}, **settings)
    assert graph.prompt[taker]["inputs"][name] == [giver, output]
    graph.prompt[taker]["inputs"][name] = made[0]
    return made


def handled_models():
    """Packs make a ControlNet of their own, take a VAE and a CLIP of exactly ComfyUI's class only,
    set methods on them, bound to what they were taken from, and check the type of a wire.
    """
    graph = picture(11, extras=True)
    _between(graph, "control", 0, "apply", "control_net", "WorldWeightedControl", "control_net",
             weight=0.25)
    vae = _between(graph, "1", 2, "decode", "vae", "WorldExactly", "value")
    _between(graph, vae.id, 0, "decode", "vae", "WorldHookedVAE", "vae")
    clip = _between(graph, "lora", 1, "positive", "clip", "WorldExactly", "value")
    _between(graph, clip.id, 0, "positive", "clip", "WorldHookedCLIP", "clip")
    _between(graph, "sampler", 0, "decode", "samples", "WorldTyped", "latent", model=["lora", 0])
    return graph


def pipe():
    """Model, CLIP and VAE on one wire of the pack's own type; its node samples and decodes."""
    graph = picture(14)
    made = graph.add("WorldToPipe", model=["1", 0], clip=["1", 1], vae=["1", 2])
    sampled = graph.add("WorldPipeSampler", "sampler", pipe=made, seed=14, size=64)
    for node_id in ("positive", "negative", "latent", "decode"):
        del graph.prompt[node_id]
    graph.prompt["save"]["inputs"]["images"] = sampled[0]
    return graph


def loop():
    """Three turns of sampling; the body's nodes are cloned, and one of its wires is empty."""
    graph = picture(15)
    opened = graph.add("WorldLoopOpen", "open", turns=3)
    maybe = graph.add("WorldMaybe", "maybe", full=False, after=opened[1])
    model = graph.add("WorldFirstModel", "model", first=maybe, second=["1", 0])
    latent = graph.add("WorldFirstLatent", "first", first=opened[1], second=["latent", 0])
    sampler = graph.prompt["sampler"]["inputs"]
    sampler["model"], sampler["latent_image"] = model[0], latent[0]
    closed = graph.add("WorldLoopClose", "close", loop=opened[0], value=["sampler", 0])
    graph.prompt["decode"]["inputs"]["samples"] = closed[0]
    return graph


def step_cache():
    """A cache of steps in an object of the pack's own."""
    graph = picture(16)
    graph.prompt["sampler"]["inputs"]["steps"] = 6
    _between(graph, "1", 0, "sampler", "model", "WorldStepCache", "model", threshold=0.9)
    return graph


def placed_weights():
    """The pack places the weights; ComfyUI's counter says that none is on the device."""
    graph = picture(17)
    _between(graph, "1", 0, "sampler", "model", "WorldPlacedModel", "model")
    return graph


def flushed_cache():
    """A cleaner empties ComfyUI's node cache while the prompt runs."""
    graph = picture(18)
    _between(graph, "sampler", 0, "decode", "samples", "WorldFlushCache", "value")
    return graph


def changed_by_time():
    """A node whose change mark is the time stands above everything."""
    graph = picture(19)
    graph.prompt["sampler"]["inputs"]["seed"] = graph.add("WorldByTime", "mark", value=19)[0]
    return graph


WORLDS = [handled_models, pipe, loop, step_cache, placed_weights, flushed_cache, changed_by_time]
