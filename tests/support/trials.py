"""The server that the bundled workflows are tried on."""

from tools import workflow_trials
from tools.lab import PACKS

CAPACITY_MIB = 16384
LIMIT_S = 900  # two busy cores


def trial_server(serve, *flags, packs=()):
    """A simulated GPU with room, the small encoders, and ComfyUI's example picture."""
    server = serve(
        *flags, simulate_mib=CAPACITY_MIB,
        packs=[PACKS / name for name in ("headroom_small_encoders", *packs)],
        env=workflow_trials.ENVIRONMENT,
    )
    workflow_trials.write_example_picture(server.base_dir / "input")
    return server
