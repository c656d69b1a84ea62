"""The report's figures."""

import random

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.image import imread
from torch.utils.tensorboard import SummaryWriter

from pvn.evaluation.flights import flights_of
from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.systems import SYSTEMS
from pvn.viz import curves, illustrations
from pvn.viz.curves import draw_learning, draw_success_by_radius, read_curves, system_colours
from pvn.viz.illustrations import illustrate_flights, illustrate_results


@pytest.mark.long
def test_evolution_and_gallery_are_drawn_as_pdf_and_png(paragraph, quick_pvn, tmp_path):
    pilot, paragraph = load_pilot(str(quick_pvn)), paragraph[:2]
    tasks = [segment.task for segment in paragraph]
    flights = flights_of(fly(simulator_for(tasks, config=pilot.config), tasks, pilot.policy_for()))
    for illustration in illustrate_flights(tmp_path, paragraph, flights, pilot):
        assert illustration.path.with_suffix(".pdf").name in illustration.caption
        assert illustration.path.with_suffix(".pdf").exists() and imread(illustration.path).std() > 0.1


def test_the_same_seed_illustrates_the_same_flights(paragraph, monkeypatch, tmp_path):
    oracle, pvn = load_pilot("oracle"), load_pilot("pvn")
    demonstrations = [segment.demonstration for segment in paragraph]
    tasks = [segment.task for segment in paragraph]
    simulator = simulator_for(tasks, config=oracle.config)
    flights = flights_of(fly(simulator, tasks, oracle.policy_for(demonstrations)))
    shown = []
    monkeypatch.setattr(illustrations, "fly_and_record", lambda pilot, task, **rest: task)
    monkeypatch.setattr(illustrations, "draw_evolutions", lambda path, flights: shown.append(list(flights)))
    monkeypatch.setattr(
        illustrations, "draw_gallery", lambda path, flights: shown.append([flight.task for flight in flights])
    )
    for _ in range(2):
        illustrate_flights(tmp_path, paragraph, flights, pvn, seed=4)
    assert shown[:2] == shown[2:] and sorted(map(id, shown[1])) == sorted(map(id, tasks))
    long = [task for task, steps in zip(tasks, flights.num_steps.tolist(), strict=True) if steps > 18]
    expected = long if len(long) >= illustrations.NUM_EVOLUTIONS else tasks
    assert shown[0] == random.Random(4).sample(expected, 3), "of those long enough for four predictions"


def test_only_a_pvn_is_illustrated(paragraph, tmp_path):
    with pytest.raises(ValueError, match="predicts no visitation distributions"):
        illustrate_flights(tmp_path, paragraph, None, load_pilot("oracle"))


def write_log(folder, steps):
    writer = SummaryWriter(str(folder), filename_suffix=f".{steps.start}")
    for step in steps:
        writer.add_scalar("stage1/loss", steps.start + 1 / (1 + step), step)
    writer.close()


def test_logs_of_a_resumed_run_are_joined(tmp_path):
    for steps in (range(0, 60), range(40, 100)):  # the second resumes from a checkpoint before the first's end
        write_log(tmp_path, steps)
    curve = read_curves(tmp_path)["stage1/loss"]
    assert curve[:, 0].tolist() == list(range(100)) and curve[50, 1] > 40 > curve[39, 1]


@pytest.mark.long
def test_curves_are_drawn(summary, with_rate, tmp_path):
    curve = np.stack([np.arange(100.0), 1 / (1 + np.arange(100.0))], 1)
    draw_learning(tmp_path / "learning.png", {"pvn": {"stage1/loss": curve}}, tuple(SYSTEMS))
    draw_success_by_radius(tmp_path / "radius.png", [summary, with_rate("pvn", "dev", 1, 2)], tuple(SYSTEMS))
    for name in ("learning", "radius"):
        assert imread(tmp_path / f"{name}.png")[..., :3].std() > 0.05


def test_a_curve_of_one_point_is_a_dot(monkeypatch, tmp_path):
    drawn, point = [], np.array([[200.0, 1.5]])
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: drawn.append(figure))
    runs = {"pvn": {"stage2/loss": point}, "gsmn": {"stage2/loss": np.repeat(point, 2, 0)}}
    draw_learning(tmp_path / "learning.png", runs, tuple(SYSTEMS))
    assert [line.get_marker() for line in drawn[0].axes[0].lines] == ["o", ""]


@pytest.mark.long
def test_systems_and_changes_of_pvn_have_a_panel_each_with_their_names(summary, with_rate, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: drawn.append(figure))
    changed = [with_rate(name, "dev", 1, 2) for name in ("pvn", "pvn-no-aux", "pvn-no-goal")]
    draw_success_by_radius(tmp_path / "radius.png", [summary, with_rate("pvn", "test", 1, 2), *changed], tuple(SYSTEMS))
    systems, changes = drawn[0].axes
    assert {text.get_text() for text in systems.texts} == {"oracle", "pvn"} and "test" in systems.get_title()
    assert {text.get_text() for text in changes.texts} == {"pvn", "pvn-no-aux", "pvn-no-goal"}
    heights = sorted(text.get_position()[1] for text in changes.texts)
    assert min(np.diff(heights)) > 3.9, "equal curves, but names that can be read"
    plt.close(drawn[0])


@pytest.mark.long
def test_learning_is_illustrated_where_it_was_logged(summary, tmp_path):
    titles = [part.title for part in illustrate_results(tmp_path, [summary], tmp_path / "runs")]
    assert titles == ["Success by radius"]
    write_log(tmp_path / "runs" / "gsmn" / "logs", range(0, 5))
    found = illustrate_results(tmp_path, [summary], tmp_path / "runs")
    assert [part.title for part in found] == ["Success by radius", "Learning"] and all(p.path.exists() for p in found)


def test_every_system_has_a_line_of_its_own():
    lines = system_colours(tuple(SYSTEMS))
    assert len(set(lines.values())) == len(SYSTEMS)
