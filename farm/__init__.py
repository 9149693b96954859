"""A farm: one queue of prompts for many ComfyUI servers, on Ray.

It talks HTTP to the servers and imports nothing of the node pack, nor the pack anything of it.
`python -m farm run PROMPTS --servers …` from the folder above this one; docs/farm.md has the rest.

    cli · driver              what is typed; the loop that gives out prompts and takes results
    cluster                   the only file that imports Ray: one actor a server
    worker                    what an actor does: start or adopt one server, run one prompt
    comfy · process · outputs HTTP to a server; a server's process; its files
    errors                    which errors say that memory ran out
    placement · verdict       which prompt goes where; what follows an attempt
    seat · counts · progress  what a server does; how many prompts came to what; the bar
    needs · ledger · prompts · servers · keys · words
                              plain data: what was needed, what is done, what is asked
"""
