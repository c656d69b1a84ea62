"""Films of flights."""

import itertools
import weakref
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pvn.viz import film, palette
from pvn.viz.film import (
    FIELD,
    FRAMES_PER_STEP,
    GROUNDING,
    HEIGHT,
    HOLD_SECONDS,
    OWN_PX,
    SEMANTIC,
    VIEW,
    WIDTH,
    draw_frames,
    write_film,
)


@pytest.fixture(scope="module")
def one_step(record):
    return replace(record, moments=record.moments[:1])


@pytest.mark.long
def test_a_film_plays_in_real_time_and_holds_its_last_frame(record, tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    some = replace(record, moments=record.moments[:2])
    write_film(some, tmp_path / "flight.mp4")
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "flight.mp4"))
    about = next(reader)
    shown = [np.frombuffer(frame, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(int) for frame in reader]
    assert about["size"] == (WIDTH, HEIGHT) and about["codec"] == "h264" and about["pix_fmt"].startswith("yuv420p")
    rate = FRAMES_PER_STEP / 0.5
    assert len(shown) == 2 * FRAMES_PER_STEP + HOLD_SECONDS * rate
    assert abs(about["duration"] - (2 * 0.5 + HOLD_SECONDS)) < 0.1
    _, _, right, bottom = VIEW
    for frame, moment in ((shown[0], some.moments[0]), (shown[-1], some.moments[-1])):
        own = frame[bottom - 10 - 72 : bottom - 10, right - 10 - 128 : right - 10]
        assert np.abs(own - moment.image).mean() < 6, "the agent's own picture is in the corner of the view"
    assert np.abs(shown[-1] - shown[0]).mean() > 2
    assert np.abs(shown[-1] - shown[-5]).mean() < 1, "the last frame is held"


@pytest.mark.long
def test_the_same_flight_gives_the_same_film(one_step, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    for name in ("one.mp4", "two.mp4"):
        write_film(one_step, tmp_path / name)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()


@pytest.mark.long
def test_between_steps_only_the_drone_its_view_its_trail_and_the_curves_move(one_step):
    frames = list(draw_frames(one_step))
    assert len(frames) == FRAMES_PER_STEP + 1
    left, top, right, bottom = FIELD
    changed = (frames[0] != frames[FRAMES_PER_STEP - 1]).any(-1)
    assert changed[top:bottom, left:right].any()
    left, top, right, bottom = VIEW
    assert changed[top:bottom, left:right].any(), "the view moves with the drone"
    own_left, own_top = right - 10 - OWN_PX[0], bottom - 10 - 72
    assert not changed[own_top : bottom - 10, own_left + 32 : right - 10].any(), "the agent's own picture stays"
    assert not changed[:112].any() and not changed[480:, 624:1040].any(), "nor do title and maps move"


@pytest.mark.long
def test_frames_are_in_order_and_the_trail_grows_from_each_to_the_next(record):
    frames = list(draw_frames(replace(record, moments=record.moments[4:7]), every=2))
    left, top, right, bottom = FIELD
    blue = np.array(palette.rgb_bytes(palette.FLOWN))
    lengths = [int((abs(frame[top:bottom, left:right] - blue.astype(int)).max(-1) < 40).sum()) for frame in frames]
    assert len(lengths) == 10 and lengths[0] < lengths[-1] - 20
    assert all(after > before - 4 for before, after in itertools.pairwise(lengths)), lengths


@pytest.mark.long
def test_a_pilot_without_maps_is_filmed_and_its_maps_stay_dark(mapless_record):
    frame = next(iter(draw_frames(mapless_record)))
    for left, top, right, bottom in (SEMANTIC, GROUNDING):
        assert frame[top:bottom, left:right].mean() < 15


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_films_for_web_pages_are_small_and_loop(one_step, suffix, tmp_path):
    path = tmp_path / f"flight{suffix}"
    write_film(one_step, path)
    with Image.open(path) as written:
        assert written.n_frames >= 3 and written.info.get("loop") == 0
    assert path.stat().st_size < 3e5


@pytest.mark.long
def test_of_a_film_with_fewer_frames_the_others_are_the_same_and_the_last_is_there(one_step):
    frames = list(draw_frames(one_step))
    for every, shown in ((3, [0, 3, 6]), (4, [0, 4, 6])):
        assert np.array_equal(list(draw_frames(one_step, every)), [frames[number] for number in shown])


@pytest.mark.long
@pytest.mark.parametrize(("suffix", "every"), [(".webp", 2), (".gif", 3)])
def test_films_for_web_pages_have_some_of_the_frames_and_never_all_in_memory(
    record, suffix, every, monkeypatch, tmp_path
):
    made, asked, most = [], [], 0
    wedge = 30 * np.linspace(0, 8, WIDTH, endpoint=False).astype(np.uint8)[:, None]

    def greys(record, every, scale):
        nonlocal most
        asked.append(every)
        for number in range(8):
            frame = np.full((HEIGHT, WIDTH, 3), 30 * number, np.uint8)
            frame[: HEIGHT // 2] = wedge  # the frames of a .gif share a palette: every grey is in each
            made.append(weakref.ref(frame))
            most = max(most, sum(each() is not None for each in made))
            yield frame

    monkeypatch.setattr(film, "draw_frames", greys)
    write_film(record, tmp_path / f"flight{suffix}")
    with Image.open(tmp_path / f"flight{suffix}") as written:
        levels = []
        for number in range(written.n_frames):
            written.seek(number)
            levels.append(round(written.convert("L").getpixel((10, written.height - 10)) / 30))
    assert levels == list(range(8)) and most <= 2 and asked == [every]
