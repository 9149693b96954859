"""A farm: one queue of prompts for many ComfyUI servers, on Ray.

It talks HTTP to the servers and imports nothing of the node pack, nor the pack anything of it.
`python -m farm serve --servers …` is one ComfyUI in front of all; `python -m farm run PROMPTS
--servers …` runs a batch. From the folder above this one; docs/farm.md has the rest.

    app · guard               one URL: its routes, who may ask
    door · store              accept, place, follow; what is accepted and what came of it, on disk
    proxy · hearing · clients what goes on to a server, what servers say, who listens
    jobs · threads            the queue as newer frontends ask for it; a thread each server
    client                    a batch through such a URL
    serve · plan · replicas   in this process, or on Ray Serve
    cli · driver              what is typed; the loop that gives out prompts and takes results
    cluster                   Ray for `run`: one actor a server
    worker                    what an actor does: start or adopt one server, run one prompt
    comfy · process · outputs HTTP to a server; a server's process; its files
    errors                    which errors say that memory ran out
    placement · verdict       which prompt goes where; what follows an attempt
    seat · counts · progress  what a server does; how many prompts came to what; the bar
    needs · ledger · prompts · servers · keys · words
                              plain data: what was needed, what is done, what is asked
"""
