"""A ComfyUI that listens nowhere: it tells its node types, and whether prompts are valid.

    python validator_main.py TREE/main.py [ComfyUI's arguments]

It writes a line of JSON with its `/object_info` first, then one for each line that it reads: the
errors of that prompt, none where the server would queue all of it.
"""

import asyncio
import inspect
import json
import os
import sys
from pathlib import Path


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # ComfyUI and its packs print
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    import main as comfyui

    folder_paths = comfyui.folder_paths
    for name in folder_paths.folder_names_and_paths:
        if name != "custom_nodes":
            folder_paths.add_model_folder_path(name, f"{folder_paths.models_dir}/every_folder")
    loop, server, _ = comfyui.start_comfyui()
    asyncio.set_event_loop(loop)
    [object_info] = [route.handler for route in server.routes
                     if (route.method, route.path) == ("GET", "/object_info")]
    print(loop.run_until_complete(object_info(None)).text, file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(errors_of(json.loads(line), loop)), file=answers, flush=True)
    answers.flush()
    os._exit(0)  # its worker waits for prompts for ever


def errors_of(prompt, loop):
    import execution

    arguments = ("id", prompt, None)[:len(inspect.signature(execution.validate_prompt).parameters)]
    valid, error, _, node_errors = loop.run_until_complete(execution.validate_prompt(*arguments))
    found = [{"node": node_id, "class_type": node["class_type"], **one}
             for node_id, node in node_errors.items() for one in node["errors"]]
    return found if valid or found else [error]


if __name__ == "__main__":
    main()
