"""The vehicle and its clock without any client: paths flown tick by tick, and simulated time against the wall clock."""

import asyncio
import math
import selectors

import numpy as np
import pytest

from pvn.bridges.airsim.host import Host
from pvn.bridges.shared import motions
from pvn.bridges.shared.clock import MAX_LAG_S
from pvn.bridges.shared.frames import from_ned, swap_rotation, to_ned
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.bridges.shared.vehicle import TICK_SECONDS, Vehicle


def fly_path(path_ned, speed):
    """The track (T, 3), NED, one point per tick, of a drone that starts at (0, 0, -5) and arrives at the path's end."""
    vehicle, results, track = Vehicle(), [], []
    vehicle.teleport(from_ned((0.0, 0.0, -5.0)), swap_rotation((1.0, 0.0, 0.0, 0.0)))
    path = [from_ned(point) for point in path_ned]
    motion = motions.follow_path(path, speed, motions.turn_at_rate(0.0), 120.0, vehicle.state)
    vehicle.start_motion(motion, results.append)
    while not results:
        vehicle.tick()
        track.append(to_ned(vehicle.state.position))
    assert results == [True]
    return np.array(track)


def test_a_small_round_trip_is_flown_in_full_even_at_high_speed():
    corners = [(5, 0, -5), (5, 5, -5), (0, 5, -5), (0, 0, -5)]
    track = fly_path(corners, 10)
    distances = [np.linalg.norm(track - corner, axis=1) for corner in corners]
    assert max(one.min() for one in distances) < 2.5
    assert distances[0].argmin() < distances[1].argmin() < distances[2].argmin(), "in the order of the path"


def test_a_path_of_many_points_is_flown_at_its_speed_even_with_repeated_points():
    angles = np.linspace(0, 2 * np.pi, 101)
    circle = [(6 * np.sin(angle), 6 - 6 * np.cos(angle), -5.0) for angle in angles]
    track = fly_path([circle[0], *circle, circle[-1]], 3)
    length = np.linalg.norm(np.diff(track, axis=0), axis=1).sum()
    assert length == pytest.approx(2 * np.pi * 6, rel=0.15)
    assert len(track) * TICK_SECONDS < 1.4 * length / 3 + 2


class VirtualTimeSelector(selectors.DefaultSelector):
    """Instead of waiting, moves its own time forward, by a microsecond at least."""

    now = 0.0

    def select(self, timeout=None):
        self.now += max(timeout or 0.0, 1e-6)
        return super().select(None if timeout is None else 0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose wall clock passes as fast as the machine allows, however busy it is."""

    def __init__(self):
        self.selector = VirtualTimeSelector()
        super().__init__(self.selector)

    def time(self):
        return self.selector.now


@pytest.fixture
def run_clock(layout):
    """A function that runs a coroutine function with a host whose clock runs, in virtual wall-clock time."""

    def run(speed, scenario):
        async def main():
            host = Host(CameraRenderer(layout), speed=speed)
            clock = asyncio.ensure_future(host.run_clock())
            await scenario(host)
            clock.cancel()
            host.close()

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main())

    return run


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_simulated_time_passes_at_the_configured_speed(run_clock, speed):
    async def scenario(host):
        await asyncio.sleep(2.0)
        assert host.vehicle.state.time_s == pytest.approx(2.0 * speed, abs=2 * TICK_SECONDS)

    run_clock(speed, scenario)


def test_after_a_stall_simulated_time_catches_up_a_little_and_drops_the_rest(run_clock):
    async def scenario(host):
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().selector.now += 10.0
        await asyncio.sleep(0.5)
        assert host.vehicle.state.time_s == pytest.approx(1.5 + MAX_LAG_S, abs=4 * TICK_SECONDS)

    run_clock(1.0, scenario)


def test_at_infinite_speed_time_passes_only_while_someone_waits_for_it(run_clock):
    async def scenario(host):
        await asyncio.sleep(5.0)
        assert host.vehicle.num_ticks == 0
        await host.continue_for(3.0)
        assert host.vehicle.state.time_s == pytest.approx(3.0) and host.is_paused

    run_clock(math.inf, scenario)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_a_speed_must_be_positive(speed, layout):
    with pytest.raises(ValueError, match="speed: got .*, expected more than 0"):
        Host(CameraRenderer(layout), speed=speed)
