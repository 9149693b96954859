"""The pictures, videos and sounds that a workflow loads; grey ones for those that are missing."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fit_files import named

SIDE = 1024  # pixels of a picture
WIDTH, HEIGHT, FRAMES, FPS = 832, 480, 81, 16  # of a video
SOUND_S, SOUND_HZ = 10, 44100
FOLDERS = (" [input]", " [output]", " [temp]")  # behind a name: the folder


def add_inputs(data: Any, inputs: Path | None, target: Path) -> list[str]:
    """Put what a workflow loads into `target`, from the user's folder `inputs` where it has it.

    Those that had to be made are returned.
    """
    made = []
    for endings, write in MADE.items():
        for name in named(data, (*endings, *(end + f for end in endings for f in FOLDERS))):
            place = (target / re.sub(r" \[\w+\]$", "", name)).resolve()
            own = inputs / place.name if inputs is not None else None
            if target.resolve() not in place.parents or place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if own is not None and own.is_file():
                shutil.copyfile(own, place)
                continue
            write(place)
            made.append(name)
    return made


def _picture(place: Path) -> None:
    from PIL import Image

    Image.new("RGB", (SIDE, SIDE), "gray").save(place)


def _video(place: Path) -> None:
    """Write an MP4 with silence; readers look at the content, not at the name's ending."""
    import av
    import numpy as np

    grey = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    with av.open(place, "w", format="mp4") as file:
        video = file.add_stream("mpeg4", rate=FPS, width=WIDTH, height=HEIGHT, pix_fmt="yuv420p")
        audio = file.add_stream("aac", rate=SOUND_HZ, layout="stereo")
        for _ in range(FRAMES):
            file.mux(video.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        silence = np.zeros((2, SOUND_HZ * FRAMES // FPS), np.float32)
        sound = av.AudioFrame.from_ndarray(silence, format="fltp", layout="stereo")
        sound.sample_rate = SOUND_HZ
        file.mux(audio.encode(sound))
        for stream in (video, audio):
            file.mux(stream.encode(None))


def _sound(place: Path) -> None:
    """Write silence as a WAV, whatever the name's ending."""
    import wave

    with wave.open(str(place), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(SOUND_HZ)
        file.writeframes(bytes(4 * SOUND_S * SOUND_HZ))


MADE: dict[tuple[str, ...], Callable[[Path], None]] = {
    (".png", ".jpg", ".jpeg", ".webp"): _picture,
    (".mp4", ".webm", ".mov", ".mkv"): _video,
    (".wav", ".mp3", ".flac", ".ogg", ".m4a"): _sound,
}
