"""A farm: one queue of prompts for many ComfyUI servers.

It talks HTTP to the servers and imports nothing of the node pack, nor the pack anything of it.
`python -m farm serve --servers …` is one ComfyUI in front of all; `python -m farm run PROMPTS
--servers …` runs a batch through a door of its own. From the folder above this one; docs/farm.md
has the rest.

    app · access              one URL: its routes, who may ask
    door · line               accept, place, follow; what is asked, what waits, what is ordered
    store · history           what is accepted and what came of it, on disk; as clients see it
    proxy · sockets · clients what goes on to a server, what servers and clients hear, who listens
    client · outputs          a batch through such a URL; its files
    serve · settings          a door in this process, or on Ray Serve
    replicas                  the door, and servers that are started, on Ray Serve
    cli · progress            what is typed; how many prompts came to what, and the bar
    worker · comfy · process  start or adopt one server, run one prompt; HTTP to it; its process
    errors                    what a server says of an error; which say that memory ran out
    placement · needs         which prompt goes where, by what its kind needed
    verdict · seat            what follows an attempt; what each server does
    prompts · servers · keys · words
                              plain data: what is asked
"""
