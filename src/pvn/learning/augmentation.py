"""Picture augmentation: in training, each flight's pictures differ a little from what the simulator draws.

One draw applies to all pictures of a flight in a batch. The demonstrated path, the landmarks' places and the drone's
poses stay true. Where the camera is moved, the agent still gets the drone's own pose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pvn.geometry import wrap_angle

SUN, SKY, SKY_COLOUR, GROUND, BALANCE, SATURATION, CONTRAST, BLUR, TILT, HEIGHT, LATE = (
    0, 1, 2, 5, 8, 11, 12, 13, 14, 15, 16,
)  # fmt: skip
"""The first column of each in a table of draws."""
NUM_DRAWS = 17
GREY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are."""


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How far pictures may differ in training; the draws are uniform, one for each flight of a batch. 0: not at all."""

    sun: float = 0.0
    """The light is up to this share brighter or darker. The sun stays where it is, and so do the shadows."""
    sky: float = 0.0
    """Up to this share of the sky's colour is replaced by a random colour."""
    ground: float = 0.0
    """Red, green and blue of grass, lakes and kerbs are each scaled up or down by up to this share."""
    colours: float = 0.0
    """Red, green, blue and saturation of the whole picture are each scaled up or down by up to this share."""
    contrast: float = 0.0
    """Contrast is scaled up or down by up to this share."""
    blur_px: float = 0.0
    """Largest standard deviation of the Gaussian blur, pixels."""
    tilt: float = 0.0
    """Largest error of the camera's tilt, up or down, radians."""
    height: float = 0.0
    """Largest error of the camera's height, up or down, metres."""
    late: float = 0.0
    """Largest delay of a picture, as a share of the time between two pictures: it is taken from between the drone's
    pose and the previous one."""

    def __post_init__(self) -> None:
        limits = {
            "sun": 0.9, "sky": 1.0, "ground": 0.9, "colours": 0.9, "contrast": 0.9, "blur_px": 5.0, "tilt": 0.5,
            "height": 4.0, "late": 1.0,
        }  # fmt: skip
        for name, limit in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise ValueError(f"augmentation.{name}: got {value}, expected 0, which changes nothing, to {limit:g}")

    @property
    def is_off(self) -> bool:
        """Whether all pictures stay as they are."""
        return not any(vars(self).values())


@dataclass(frozen=True)
class AugmentedFlights:
    """The draws for B flights, and what they do to the flights' pictures."""

    config: Augmentation
    draws: Tensor
    """(B, NUM_DRAWS): uniform from 0 to 1."""

    def _either_way(self, column: int, spread: float, flight: Tensor, count: int = 1) -> Tensor:
        """Values (K, count) from -spread to spread for frames of flights (K,)."""
        return (2 * self.draws[flight, column : column + count] - 1) * spread

    def taken_from(self, pose_world: Tensor, flight: Tensor, first_frame: Tensor) -> tuple[Tensor, Tensor]:
        """Where the pictures of frames at poses (K, 6), field frame, are taken, and how much further down the camera
        points (K,), radians.

        flight (K,): the flight of each frame; first_frame (B + 1,): where each flight's frames begin.
        """
        frame = torch.arange(len(pose_world), device=pose_world.device)
        before = torch.maximum(frame - 1, first_frame[flight])
        back = pose_world[before] - pose_world
        back = torch.cat([back[:, :3], wrap_angle(back[:, 3:])], -1)
        taken = pose_world + back * self.draws[flight, LATE : LATE + 1] * self.config.late
        rise = self._either_way(HEIGHT, self.config.height, flight)
        taken = torch.cat([taken[:, :2], taken[:, 2:3] + rise, taken[:, 3:]], -1)
        return taken, self._either_way(TILT, self.config.tilt, flight)[:, 0]

    @property
    def needs_surfaces(self) -> bool:
        """Whether `repaint` has to know which pixels show the sky and the ground."""
        return self.config.sky > 0 or self.config.ground > 0

    def repaint(self, image: Tensor, flight: Tensor, surfaces: tuple[Tensor, Tensor] | None) -> Tensor:
        """Pictures (K, H, W, 3) uint8 of frames of flights (K,) with other light, colours and contrast, and blurred.

        surfaces: which pixels show the ground and which the sky, (K, H, W) bool each; None if not needed.
        """
        config, colour = self.config, image.float() / 255

        def by_frame(values: Tensor) -> Tensor:
            return values[:, None, None]

        if surfaces is not None:
            is_ground, is_sky = surfaces
            tint = by_frame(1 + self._either_way(GROUND, config.ground, flight, 3))
            colour = torch.where(is_ground[..., None], colour * tint, colour)
            drawn, share = (
                self.draws[flight, SKY_COLOUR : SKY_COLOUR + 3], self.draws[flight, SKY : SKY + 1] * config.sky
            )  # fmt: skip
            colour = torch.where(is_sky[..., None], torch.lerp(colour, by_frame(drawn), by_frame(share)), colour)
        gain = 1 + self._either_way(SUN, config.sun, flight)
        colour = colour * by_frame(gain * (1 + self._either_way(BALANCE, config.colours, flight, 3)))
        # Not a product with a tensor: creating a tensor from Python numbers cannot be captured in a CUDA graph.
        red, green, blue = colour.unbind(-1)
        grey = (GREY[0] * red + GREY[1] * green + GREY[2] * blue)[..., None]
        colour = torch.lerp(grey, colour, by_frame(1 + self._either_way(SATURATION, config.colours, flight)))
        mean = colour.mean((1, 2, 3), keepdim=True)
        colour = torch.lerp(mean, colour, by_frame(1 + self._either_way(CONTRAST, config.contrast, flight)))
        if config.blur_px > 0:
            colour = _blurred(colour, self.draws[flight, BLUR] * config.blur_px, math.ceil(2.5 * config.blur_px))
        return (colour.clamp(0, 1) * 255).round().to(torch.uint8)


def _blurred(colour: Tensor, sigma_px: Tensor, reach: int) -> Tensor:
    """Pictures (K, H, W, 3), each blurred by its own Gaussian, of deviation (K,) and cut off at `reach` pixels."""
    off = torch.arange(-reach, reach + 1, device=colour.device)
    weight = torch.exp(-0.5 * (off / sigma_px.clamp(min=1e-3)[:, None]) ** 2)
    weight = weight / weight.sum(1, keepdim=True)
    picture = colour.permute(0, 3, 1, 2)
    for axis, edges in ((2, (0, 0, reach, reach)), (3, (reach, reach, 0, 0))):
        wide = functional.pad(picture, edges, mode="replicate")
        parts = (wide.narrow(axis, start, picture.shape[axis]) for start in range(2 * reach + 1))
        picture = torch.stack([
            part * weight[:, start, None, None, None] for start, part in enumerate(parts)
        ]).sum(0)  # fmt: skip
    return picture.permute(0, 2, 3, 1)


def draw_augmentation(config: Augmentation, num_flights: int, generator: torch.Generator) -> AugmentedFlights | None:
    """The draws for a batch's flights, on the host; None, and the generator is left alone, without augmentation."""
    if config.is_off:
        return None
    return AugmentedFlights(config, torch.rand((num_flights, NUM_DRAWS), generator=generator))
