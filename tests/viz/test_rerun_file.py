"""Rerun recordings: what is written is what was flown."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pvn.viz.rerun_file import write_recording

pytest.importorskip("rerun")


class Rows:
    """The rows of an entity's component in an .rrd, by step and by time (seconds)."""

    def __init__(self, path):
        from rerun.chunk import RrdReader

        self.chunks = RrdReader(path).store().stream().to_chunks()
        self.entities = {chunk.entity_path for chunk in self.chunks}

    def read(self, entity, component):
        found = {}
        for chunk in self.chunks:
            batch = chunk.to_record_batch()
            if chunk.entity_path == entity and not chunk.is_static and component in batch.schema.names:
                steps, times = batch.column("step").to_pylist(), batch.column("time").to_pylist()
                for step, time, value in zip(steps, times, batch.column(component).to_pylist(), strict=True):
                    found[step] = (time.total_seconds(), value)
        return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def recording(record, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "flight.rrd"
    write_recording(record, path)
    return path


def test_poses_pictures_and_curves_are_there_at_every_step_and_time(record, recording):
    rows, num_steps = Rows(recording), len(record.moments)
    poses = rows.read("/world/drone", "Transform3D:translation")
    assert list(poses) == list(range(num_steps + 1))
    assert [time for time, _ in poses.values()] == [0.5 * step for step in range(num_steps + 1)]
    assert np.array_equal(np.array([pose[0] for _, pose in poses.values()], np.float32), record.flown_world[:, :3])
    stops = rows.read("/plots/stop/probability", "Scalars:scalars")
    assert [value[0] for _, value in stops.values()] == [moment.stop_probability for moment in record.moments]
    speed = rows.read("/plots/motion/speed", "Scalars:scalars")
    assert np.allclose([value[0] for _, value in speed.values()], record.speeds) and len(speed) == num_steps + 1
    images = rows.read("/world/drone/camera", "EncodedImage:blob")
    assert len(images) == num_steps
    for moment, (_, blob) in zip(record.moments, images.values(), strict=True):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(bytes(blob[0])))), moment.image), "not a pixel is lost"


def test_the_caption_says_the_instruction_and_at_the_end_the_outcome(record, recording):
    captions = Rows(recording).read("/caption", "TextDocument:text")
    assert list(captions) == [0, len(record.moments)]
    assert all(record.task.instruction in value[0] for _, value in captions.values())
    assert "never stopped" in captions[len(record.moments)][1][0]


def test_maps_are_there_at_every_step_and_distributions_when_predicted(record, recording):
    rows = Rows(recording)
    for entity in ("/maps/semantic", "/maps/grounding"):
        assert len(rows.read(entity, "EncodedImage:blob")) == len(record.moments)
    for name, channel in (("trajectory", 0), ("goal", 1)):
        predicted = rows.read(f"/distributions/{name}", "Tensor:data")
        assert list(predicted) == [0, 6], "PVN predicts at every sixth step"
        for step, (_, value) in predicted.items():
            expected = record.moments[step].maps.probability[channel]
            assert value[0]["shape"] == [64, 64]
            assert np.array_equal(np.array(value[0]["buffer"], np.float32).reshape(64, 64), expected)
    assert list(rows.read("/maps/predicted", "EncodedImage:blob")) == [0, 6]
    assert list(rows.read("/world/ground", "GridMap:data")) == [0, 6]
    shown = {"/world/landmarks", "/world/names", "/world/fences", "/world/flown", "/world/demonstrated", "/world/goal"}
    assert shown <= rows.entities
    assert recording.stat().st_size < 2e6


def test_a_typed_instruction_has_no_goal_and_the_same_flight_has_the_same_id(record, tmp_path):
    from rerun.chunk import RrdReader

    typed = replace(record, demonstrated=None, moments=record.moments[:1])
    paths = [tmp_path / name for name in ("one.rrd", "two.rrd")]
    for path in paths:
        write_recording(typed, path)
    assert not {"/world/goal", "/world/demonstrated"} & Rows(paths[0]).entities
    one, two = (RrdReader(path).recordings()[0].recording_id for path in paths)
    assert one == two and len(RrdReader(paths[0]).blueprints()) == 1


def test_without_maps_the_rest_is_written(mapless_record, tmp_path):
    write_recording(mapless_record, tmp_path / "flight.rrd")
    entities = Rows(tmp_path / "flight.rrd").entities
    assert "/world/ground" in entities and not any("maps" in name or "stop" in name for name in entities)


def test_a_field_without_landmarks_is_recorded(mapless_record, tmp_path):
    task = replace(mapless_record.task, layout=replace(mapless_record.task.layout, landmarks=()))
    write_recording(replace(mapless_record, task=task), tmp_path / "flight.rrd")
    entities = Rows(tmp_path / "flight.rrd").entities
    assert "/world/fences" in entities and not {"/world/landmarks", "/world/names"} & entities
