"""Rescue on a double of ComfyUI's queue with one prompt in it, which can fail."""

import torch

from headroom.base.node_types import from_object_info
from headroom.host.types import Held, ModelFacts
from headroom.measure.journal import OomAttempt
from headroom.rescue.rescue import Rescue

OOM = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has ...")
CLASSES = {
    "Load": {"input": {}, "output": ["MODEL", "VAE"]},
    "Sample": {"input": {"required": {"model": ["MODEL"]}}, "output": ["LATENT"]},
    "Decode": {"input": {"required": {"samples": ["LATENT"], "vae": ["VAE"]}},
               "output": ["IMAGE"]},
    "Paid": {"output": ["IMAGE"], "api_node": True},
    "StartLoop": {"output": ["INT"], "loop_boundary": "start"},
    "EndLoop": {"output": ["*"], "loop_boundary": "end"},
    "Save": {"input": {"required": {"images": ["IMAGE"]}}, "output": [], "output_node": True},
}


class Registry:
    def node_type(self, class_type):
        found = CLASSES.get(class_type)
        return from_object_info(found) if found else None

    def is_core(self, type_name):
        return True

    def with_new_names(self, prompt):
        return prompt


class Queue:
    """ComfyUI's queue with one prompt in it."""

    def __init__(self):
        self.running = None
        self.history = {}
        self.queued = []
        self.events = []
        self.refusal = None
        self.interrupted = self.keeps_nothing = False
        self.cached = None  # nobody can see what the cache holds
        self.marks = {}
        self.failing = None  # the node whose error the executor handles
        self.begun = []  # nodes that run when the prompt fails
        self.shown = {}  # by nodes that a loop has made, those on the canvas

    def running_item(self):
        return self.running

    def history_entry(self, prompt_id):
        return self.history.get(prompt_id)

    def is_known(self, prompt_id):
        return prompt_id in self.history or any(item[1] == prompt_id for item in self.queued)

    def validated(self, prompt_id, prompt, outputs):
        if self.refusal:
            raise ValueError(self.refusal)
        return outputs

    def put_first(self, after, prompt_id, prompt, extra, outputs, sensitive):
        self.queued.insert(0, (after + 0.5, prompt_id, prompt, extra, outputs, sensitive))

    def interrupt_is_asked(self):
        return self.interrupted

    def keeps_no_results(self):
        return self.keeps_nothing

    def node_of(self, error):
        return self.failing

    def cached_now(self, prompt_id, prompt):
        assert not any("is_changed" in n for n in prompt.values())
        return self.cached

    def change_marks(self, prompt_id):
        return self.marks

    def shown_nodes(self, prompt_id, node_ids):
        return {one: self.shown.get(one, one) for one in node_ids}

    def running_nodes(self):
        return self.begun

    def send_event(self, event, data, client_id):
        self.events.append((event, data, client_id))


PROMPT = {
    "1": {"class_type": "Load", "inputs": {}},
    "2": {"class_type": "Sample", "inputs": {"model": ["1", 0]}, "_meta": {"title": "Hi-res"}},
    "3": {"class_type": "Decode", "inputs": {"samples": ["2", 0], "vae": ["1", 1]}},
    "4": {"class_type": "Save", "inputs": {"images": ["3", 0]}},
}
AUTOMATIC = {"headroom": {"rescue": True}, "client_id": "me"}


def type_name(error):
    """The name of its type as ComfyUI writes it."""
    module, name = type(error).__module__, type(error).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


class Bench:
    """A rescue, its host, and prompts that fail on it."""

    def __init__(self, finished=None):
        self.host = Queue()
        self.purged = []
        facts = ModelFacts("m1", "diffusion model", "BaseModel", "sd15.safetensors", 3 << 30)
        model = Held(facts, "cuda:0", 3 << 30)
        self.registry = Registry()
        self.rescue = Rescue(self.host, self.registry, self.purged.append, lambda: [model],
                             finished)

    def take(self, prompt_id="a", prompt=PROMPT, extra=AUTOMATIC, outputs=("4",)):
        """ComfyUI takes a prompt out of its queue, and has not reported its begin yet."""
        self.host.running = (3, prompt_id, prompt, extra, list(outputs), {"api_key": "secret"})

    def begin(self, *prompt, **wish):
        self.take(*prompt, **wish)
        self.rescue.prompt_begins()

    def end(self, error=OOM, failed="2", executed=("1",), cached=(), messages=()):
        item, self.host.running = self.host.running, None
        told = [("execution_start", {}), ("execution_cached", {"nodes": list(cached)}), *messages]
        if error is not None:
            self.rescue.error_is_handled(error)
            told.append(("execution_error", {
                "node_id": failed, "node_type": item[2][failed]["class_type"],
                "exception_type": type_name(error),
                "exception_message": f"{error}\n", "executed": list(executed),
            }))
        self.host.history[item[1]] = {"prompt": item[:5], "status": {"messages": told}}
        self.rescue.prompt_is_over()

    def fail(self, prompt_id="a", extra=AUTOMATIC, **how):
        self.begin(prompt_id, extra=extra)
        self.end(**how)

    def left_out(self, node_id, prompt_id="a"):
        """ComfyUI continued in a node without a part of its LoRA."""
        self.rescue.note(OomAttempt(prompt_id, node_id, 0, "went on", 0.0, "ERROR lora", False, 0))

    @property
    def only_queued(self):
        [item] = self.host.queued
        return item


class FakeQueue:
    """ComfyUI's queue: `running` and `waiting` are lists of its items."""

    def __init__(self, running=(), waiting=()):
        self.running, self.waiting, self.nodes = list(running), list(waiting), []
        self.refuses, self.told = set(), []

    def send_event(self, event, data, client):
        self.told.append((event, data, client))

    def queue_items(self):
        return self.running, self.waiting

    def running_nodes(self):
        return self.nodes

    def validated(self, prompt_id, prompt, outputs):
        if prompt_id in self.refuses:
            raise ValueError("no such file")
        return outputs

    def put_before_all(self, items):
        self.waiting = [(number - len(items), *item, {}) for number, item in enumerate(items)
                        ] + self.waiting


LEFT = {"1": {"class_type": "Loader"},
          "5": {"class_type": "Decode", "_meta": {"title": "VAE Decode"}}}


def item(number, name, **extra_data):
    return (number, name, LEFT, extra_data, ["5"], {})
