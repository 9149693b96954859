"""Start what runs beside the nodes in a ComfyUI server: the recorder and the HTTP routes.

If Headroom is off (HEADROOM_OFF=1, or its setting), only the nodes work, and there are no routes.
"""

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .advise.advisor import Advisor
from .advise.report import current_advisor, use_advisor
from .api.gate import Gate
from .api.ram_stop import RamStop
from .base.environment import disk_limit_bytes, word_of
from .encode import disk_cache
from .guard import left_out
from .host import features
from .host.adapter import host_registry, is_in_comfyui, pinned_bytes
from .host.types import Previews
from .measure.spill import Spill, counter_of_windows
from .measure.strain import Strains
from .models.foreign import NOTABLE_AFTER_RUN, foreign_models
from .models.loaded import loaded_models
from .record.highest import KeptPeaks
from .record.probe import Probe
from .record.recorder import Recorder
from .record.run import Run
from .record.run_json import error_json
from .record.ticker import Steady
from .rescue import finished
from .rescue.kept_queue import KeptQueue
from .rescue.no_queue import NoQueue
from .rescue.rescue import Rescue
from .rescue.settings import guards_all, queue_of, rescue_of

log = logging.getLogger("headroom")

OFF_VARIABLE = "HEADROOM_OFF"
OFF_SETTING = "Headroom.Server.Off"


def turned_off() -> bool | None:
    """Return whether the environment turns everything but the nodes off; None: it does not say."""
    word = word_of(os.environ, OFF_VARIABLE, ("0", "1"))
    return None if word is None else word == "1"


def tell_wrong_values() -> None:
    """Read settings that are needed later, so that wrong ones are told at the start."""
    rescue_of(None, os.environ)
    guards_all(None, os.environ, {})
    for name in (finished.LIMIT_VARIABLE, disk_cache.LIMIT_VARIABLE):
        disk_limit_bytes(os.environ, name)


def tell_name_without_panel(folder: Path) -> None:
    """Warn if ComfyUI gives the page no files of a folder with this name.

    aiohttp serves no folder whose name has a letter that an address must quote.
    """
    if quote(folder.name, safe="!$&'()*+,;=:@") != folder.name:
        log.warning("[Headroom] the page gets no panel and no help pages, because of a letter in "
                    "the name %r: rename the folder to headroom, then start ComfyUI again",
                    folder.name)


def start() -> None:
    """Start recording and serving, once; without a ComfyUI server it does nothing.

    The nodes work without both, so a ComfyUI that lacks something costs only a log entry.
    """
    if current_advisor() is not None or not is_in_comfyui():
        return
    try:
        for sentence in features.check():
            log.warning("[Headroom] %s", sentence)
        if not features.lost("server"):
            _start()
    except Exception:
        log.exception("[Headroom] runs are not recorded here; the nodes still work")


def _start() -> None:
    from .host import server as host_server
    from .host.user_settings import settings_of_the_only_user

    if not host_server.has_server():
        return
    off, settings = turned_off(), settings_of_the_only_user()
    if off or (off is None and settings.get(OFF_SETTING) is True):
        log.info("[Headroom] turned off: the nodes, and nothing else")
        return
    folder = Path(__file__).parents[1]
    if host_server.has_route("/headroom/memory"):
        log.warning("[Headroom] it is installed twice: the copy in %s adds only its "
                    "nodes. Delete one of the two folders, then start ComfyUI again", folder)
        return
    tell_name_without_panel(folder)
    from .actions.ceiling import Limit
    from .actions.make_room import wanted_bytes
    from .api.idle import Idle
    from .api.metrics import Metrics, gauges
    from .api.progress_watch import ProgressWatch
    from .api.ram_watch import RamWatch
    from .api.routes import Routes
    from .host.settled import settle_server

    tell_wrong_values()
    gate = Gate(host_server.prompts_waiting, host_server.worker_is_idle)
    queue, kept, rescue = _reruns(settings)
    ram_stop = RamStop(queue, host_server.send_event, rescue.stops_for_ram)
    idle = Idle(gate, host_server.event_loop())
    ram = RamWatch(gate, host_server.event_loop(), host_server.prompts_in_queue,
                   wanted_bytes(os.environ, settings), ram_stop.stop)
    peaks, limit = KeptPeaks(), Limit(os.environ, settings)
    metrics = Metrics(partial(gauges, host_server.queue_lengths), rescue.facts)

    steady_limit = Steady("the VRAM limit could not be set; the server continues")
    hold_limit = partial(steady_limit.call, limit.before_prompt)

    def before_prompt() -> None:
        gate.wait_for_action()
        hold_limit()
        rescue.prompt_begins()
        kept.changed()
        ram.before_prompt()  # last: an error in it must not cost the others

    def prompt_is_over(prompt_id: str) -> None:
        idle.something_happens()
        ram.prompt_is_over()
        rescue.prompt_is_over(prompt_id)
        kept.changed()  # before what looks at objects of other packs, and may raise errors
        previews = None if features.lost("files") else _previews()
        foreign = [one.as_json() for one in foreign_models(least_bytes=NOTABLE_AFTER_RUN)]
        recorder.look(prompt_id, lambda run: run.after(foreign, previews))

    def history_is_written() -> None:
        rescue.history_is_written()
        kept.changed()
        if (found := ram.after_prompt()) is not None:
            recorder.look(found[0], lambda run: run.held_then(found[2], found[1]))

    def run_is_over(run: Run) -> None:
        peaks.run_is_over(run)
        metrics.run_is_over(run)
        if run.error is not None:
            told = error_json(run, run.error)
            # For an error that a rerun can help, the rescue itself informs the user.
            if told["means"] is not None and not told["means"]["retry"]:
                host_server.send_event("headroom.error", {"prompt_id": run.prompt_id, **told},
                                       ended=run.prompt_id)

    strains = Strains(Spill(counter_of_windows(), pinned_bytes).bytes_now)
    recorder = Recorder(
        Probe(held=loaded_models, strain=strains.now), host_server.outcome_of,
        announce=lambda data: host_server.send_event("headroom.oom", data),
        before_prompt=before_prompt, prompt_is_over=prompt_is_over, run_is_over=run_is_over,
        before_node=ram.before_node,
    )
    watch = ProgressWatch(recorder.without_progress)
    advisor = Advisor(recorder, queue.prompt_of, host_registry(), rescue.facts,
                      queue.workflow_id_of)
    routes = Routes(recorder, gate, host_server.queue_lengths, rescue.ask, metrics, advisor.advice,
                    advisor.more_of, peaks, kept, limit, advisor.estimate, watch.stuck)
    attach = _listen(recorder, host_server.is_running, rescue.error_is_handled,
                     history_is_written)

    def prompt_is_posted(posted: Any, browser: dict[str, Any]) -> Any:
        if not host_server.prompts_waiting():
            attach()
        idle.prompt_is_posted(browser)
        watch.prompt_is_posted(browser)
        limit.prompt_is_posted(browser)
        return posted

    for method, path, handler in routes.table():
        host_server.add_route(method, path, handler)
    host_server.delay_free(gate.turn)
    host_server.before_prompt_is_validated(prompt_is_posted)
    ram.start()
    recorder.start()
    left_out.listen()
    host_server.after_each_post(kept.changed)
    host_server.before_first_request(settle_server)
    host_server.before_first_request(kept.start)
    host_server.before_first_request(hold_limit)
    use_advisor(advisor)


def _previews() -> Previews | None:
    from .host.flags import previews

    return previews()


def _reruns(settings: Mapping[str, Any]) -> tuple[Any, KeptQueue, Rescue]:
    """Return ComfyUI's queue, the queue on disk and the reruns of this server.

    If ComfyUI is too different: an empty queue, none on disk, and each rerun is refused.
    """
    if why := features.lost("rerun"):
        none = NoQueue(why)
        return none, KeptQueue(none, Path(), "off"), Rescue(
            none, host_registry(), lambda _: None, list)
    from .host import files, queue
    from .rescue.attach import make_rescue

    kept = KeptQueue(queue, files.own_folder() / "queue", queue_of(os.environ, settings))
    return queue, kept, make_rescue(kept.outputs_of)


def _listen(
    recorder: Recorder, is_running: Callable[[str], bool],
    error_is_handled: Callable[[BaseException], None], prompt_has_ended: Callable[[], None],
) -> Callable[[], None]:
    """Report every prompt to `recorder` from now on; return what to call before one is queued."""
    if features.lost("record"):
        return lambda: None
    from .host.prompt_events import PromptEvents

    events = PromptEvents(recorder, is_running, error_is_handled, prompt_has_ended)
    events.listen()
    return events.attach
