"""Other cameras' pictures as the agent's own camera would have taken them, and cameras that fail."""

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("cv2", reason='needs OpenCV: pip install "pvn-drone[mavlink]"')

from pvn.bridges.mavlink.calibration import Calibration, calibration_like, make_resampler, read_calibration
from pvn.bridges.mavlink.camera import CameraReader
from pvn.bridges.shared.frames import multiply_quaternions, rotation_from_pitch, rotation_from_yaw
from pvn.bridges.shared.renderer import CameraRenderer, make_camera_row
from pvn.geometry import Camera

OURS = Camera()


def take_picture(layout, camera):
    """What a level drone in the middle of the field sees with a camera."""
    rotation = multiply_quaternions(rotation_from_yaw(0.7), rotation_from_pitch(camera.tilt))
    row = make_camera_row((25.0, 25.0, 5.0), rotation, camera)
    return CameraRenderer(layout).render_scene(row, camera)


def calibration_of(camera):
    """The calibration of one of our own cameras."""
    return Calibration(
        width=camera.width, height=camera.height, fx=camera.focal_px, fy=camera.focal_px,
        cx=(camera.width - 1) / 2, cy=(camera.height - 1) / 2, tilt_degrees=math.degrees(camera.tilt),
    )  # fmt: skip


def difference(one, other):
    return np.abs(one.astype(np.int16) - other.astype(np.int16)).mean()


def test_our_own_camera_is_not_changed_at_all(layout):
    picture = take_picture(layout, OURS)
    for calibration in (calibration_of(OURS), calibration_like(OURS, OURS.width, OURS.height)):
        assert np.array_equal(make_resampler(calibration, OURS)(picture), picture)


@pytest.mark.long
@pytest.mark.parametrize(
    "camera",
    [
        Camera(width=640, height=480, horizontal_view=math.radians(100)),
        Camera(width=512, height=512, horizontal_view=math.radians(110), tilt=0.0),
        Camera(width=640, height=640, horizontal_view=math.radians(110), tilt=math.radians(30)),
    ],
)
def test_another_size_view_and_tilt_give_the_picture_of_ours(camera, layout):
    wanted = take_picture(layout, OURS)
    seen = make_resampler(calibration_of(camera), OURS)(take_picture(layout, camera))
    assert difference(seen, wanted) < 4
    untilted = replace(calibration_of(camera), tilt_degrees=math.degrees(camera.tilt) + 10)
    assert difference(make_resampler(untilted, OURS)(take_picture(layout, camera)), wanted) > 8


@pytest.mark.long
def test_a_distorted_lens_is_straightened(layout):
    import cv2

    camera = Camera(width=640, height=480, horizontal_view=math.radians(110))
    calibration = replace(calibration_of(camera), distortion=(-0.12, 0.01, 0.0, 0.0, 0.0))
    matrix = np.array([[calibration.fx, 0, calibration.cx], [0, calibration.fy, calibration.cy], [0, 0, 1]])
    columns, rows = np.meshgrid(np.arange(640.0), np.arange(480.0))
    points = np.stack([columns, rows], -1).reshape(-1, 1, 2)
    straight = cv2.undistortPoints(points, matrix, np.array(calibration.distortion), P=matrix)
    places = straight.reshape(480, 640, 2).astype(np.float32)
    distorted = cv2.remap(take_picture(layout, camera), places, None, cv2.INTER_LINEAR)
    wanted = take_picture(layout, OURS)
    assert difference(make_resampler(calibration, OURS)(distorted), wanted) < 4
    assert difference(make_resampler(replace(calibration, distortion=()), OURS)(distorted), wanted) > 6


def test_what_a_narrow_camera_does_not_see_is_black(layout):
    narrow = Camera(width=320, height=180, horizontal_view=math.radians(60))
    seen = make_resampler(calibration_of(narrow), OURS)(take_picture(layout, narrow))
    assert not seen[:, :10].any() and not seen[:, -10:].any() and seen[30:42, 60:68].all()


def test_a_picture_of_another_size_than_calibrated_is_refused():
    resample = make_resampler(calibration_like(OURS, 640, 360), OURS)
    with pytest.raises(ValueError, match="got a picture of 128 x 72 pixels, expected 640 x 360"):
        resample(np.zeros((72, 128, 3), np.uint8))


def test_a_calibration_is_read_from_its_file(tmp_path):
    path = tmp_path / "camera.json"
    content = {
        "width": 640, "height": 480, "fx": 400.5, "fy": 401.0, "cx": 320.1, "cy": 239.0,
        "distortion": [-0.1, 0.01, 0, 0, 0], "tilt_degrees": 10, "latency_s": 0.12,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    assert vars(read_calibration(path)) == {**content, "distortion": (-0.1, 0.01, 0, 0, 0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fx": None}, "with width, height, fx"),
        ({"fx": -1.0}, "expected positive numbers"),
        ({"fx": "wide"}, "expected numbers"),
        ({"fx": 10**400}, "expected numbers"),
        ({"focal": 1.0}, "expected a JSON object"),
        ({"distortion": [0.1]}, "got 1 coefficients, expected 4, 5 or 8"),
        ({"latency_s": 4.0}, "latency_s: got 4"),
        ({"cx": math.nan}, "camera.json: calibration: got nan"),
        ({"cx": 1e300}, "got 1e.300, expected numbers of at most 100000"),
        ({"width": 640.5}, "got 640.5 x 480 pixels .* whole ones"),
        ({"tilt_degrees": 100.0}, "tilt_degrees: got 100, expected -90"),
    ],
)
def test_a_calibration_that_is_none_is_refused(change, message, tmp_path):
    content = {"width": 640, "height": 480, "fx": 400.0, "fy": 400.0, "cx": 320.0, "cy": 240.0, **change}
    path = tmp_path / "camera.json"
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    with pytest.raises(ValueError, match=message):
        read_calibration(path)


def test_a_missing_calibration_or_camera_is_named(tmp_path):
    with pytest.raises(ValueError, match="calibration: cannot read .*nothing.json"):
        read_calibration(tmp_path / "nothing.json")
    with pytest.raises(ValueError, match="without a picture"):
        CameraReader(str(tmp_path), OURS)
    with pytest.raises(ValueError, match="cannot open 'http://127.0.0.1:1/x', expected the URL of a stream"):
        CameraReader("http://127.0.0.1:1/x", OURS)


@pytest.mark.long
def test_a_folder_is_played_in_the_order_of_names_and_then_grows_stale(tmp_path):
    for number in range(3):
        Image.fromarray(np.full((72, 128, 3), 40 * number, np.uint8)).save(tmp_path / f"{number}.png")
    reader = CameraReader(str(tmp_path), OURS)
    seen = [reader.wait()]
    end = time.monotonic() + 60
    while seen[-1].pixels[0, 0, 0] != 80 and time.monotonic() < end:
        if reader.latest is not seen[-1]:
            seen.append(reader.latest)
    values = [int(one.pixels[0, 0, 0]) for one in seen]
    assert values == sorted(values) and values[-1] == 80
    time.sleep(0.3)
    assert reader.latest is seen[-1], "no new picture comes"
    assert reader.see(seen[-1]).shape == (72, 128, 3)
    reader.close()


def test_a_picture_was_taken_earlier_than_it_arrived_by_the_cameras_latency(tmp_path):
    Image.fromarray(np.zeros((72, 128, 3), np.uint8)).save(tmp_path / "0.png")
    for calibration, latency_s in ((None, 0.0), (replace(calibration_of(OURS), latency_s=0.12), 0.12)):
        reader = CameraReader(str(tmp_path), OURS, calibration)
        picture = reader.wait()
        reader.close()
        assert picture.arrived_at - picture.taken_at == pytest.approx(latency_s)


def test_the_same_picture_again_is_not_a_change(tmp_path):
    for number in range(3):
        Image.fromarray(np.full((72, 128, 3), 40, np.uint8)).save(tmp_path / f"{number}.png")
    reader = CameraReader(str(tmp_path), OURS)
    first, end = reader.wait(), time.monotonic() + 60
    while reader.latest is first and time.monotonic() < end:
        time.sleep(0.01)
    assert reader.latest.changed_at == first.changed_at < reader.latest.arrived_at
    reader.close()
