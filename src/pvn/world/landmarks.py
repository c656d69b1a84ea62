"""LANI's 63 landmark classes: name, clearance radius, what a person calls it, and its solids."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pvn.world.solids import Solid

# Clearance radii in LANI's config units (1 unit = 0.05 m); every class not listed has 75.
_RADIUS_CONFIG = {
    "Palm1": 85, "Pickup": 90, "Palm2": 95, "Well": 95, "House1": 100, "House2": 100, "Palm3": 100,
    "Tank": 100, "Tower2": 100, "Container": 110, "Jet": 120, "Beacon": 125, "Bench": 125,
    "BigHouse": 125, "Boat": 125, "Coach": 125, "House": 125, "LionStatue": 125,
}  # fmt: skip

# What a person who sees the thing would call it, in the shortest unmistakable way.
_NOUNS = {
    "Anvil": "anvil", "Apple": "apple", "Banana": "banana", "Barrel": "rusty barrel",
    "Barrel2": "blue barrel", "Beacon": "lighthouse", "Bench": "bench", "BigHouse": "big house",
    "Boat": "boat", "Boletus": "brown mushroom", "Box": "wooden crate", "BushTree": "round bush",
    "BushTree2": "tall dark bush", "BushTree3": "yellowish bush", "Cactus": "cactus",
    "Coach": "carriage", "Column": "broken column", "ConniferCluster": "cluster of conifers",
    "Container": "shipping container", "Dumpster": "dumpster", "FireHydrant": "fire hydrant",
    "GiantPalm": "giant palm", "GoldCone": "golden cone", "Gorilla": "gorilla",
    "House": "cottage with the red roof", "House1": "blue house", "House2": "log cabin",
    "Jet": "jet", "Ladder": "ladder", "LionStatue": "lion statue", "LowPolyTree": "blocky tree",
    "LpPine": "pine tree", "Mushroom": "red mushroom", "OilDrum": "black oil drum",
    "Palm1": "short palm", "Palm2": "curved palm", "Palm3": "pair of palms",
    "PhoneBox": "phone box", "Pickup": "pickup truck", "Pillar": "stone pillar",
    "Pumpkin": "pumpkin", "RecycleBin": "recycling bin", "RedFlowers": "red flowers",
    "Rock": "boulder", "Soldier": "soldier", "SteelCube": "steel cube", "Stone1": "pale stone",
    "Stone2": "flat dark stone", "Stone3": "reddish stone", "StreetLamp": "street lamp",
    "Stump": "tree stump", "Tank": "tank", "Tombstone": "tombstone", "Tower2": "castle tower",
    "TrafficCone": "traffic cone", "TreasureChest": "treasure chest", "TvTower": "tv tower",
    "WaterWell": "well with the roof", "Well": "stone well", "Windmill": "windmill",
    "WoodBarrel": "wooden barrel", "WoodenChair": "wooden chair", "YellowFlowers": "yellow flowers",
}  # fmt: skip

METRES_PER_CONFIG = 0.05


@dataclass(frozen=True)
class LandmarkClass:
    """One kind of landmark."""

    name: str
    """LANI's name."""
    index: int
    """Rank of the name in case-sensitive alphabetical order, from 0. Never stored in files: a new class shifts it."""
    radius: float
    """Clearance radius, metres; a landmark's own radius is this times a scale of 1 to 1.3."""
    noun: str
    """What a person calls it, without an article."""

    @property
    def solids(self) -> tuple[Solid, ...]:
        """Its shape, landmark frame, metres, at scale 1; it reaches 0.4 to 0.5 of `radius` sideways."""
        # A thousand lines of shapes, which only simulating and drawing need.
        from pvn.world.models import MODELS

        return MODELS[self.name]


LANDMARK_CLASSES: dict[str, LandmarkClass] = {
    name: LandmarkClass(
        name=name,
        index=index,
        radius=_RADIUS_CONFIG.get(name, 75) * METRES_PER_CONFIG,
        noun=_NOUNS[name],
    )
    for index, name in enumerate(sorted(_NOUNS))
}

LANDMARK_NAMES: tuple[str, ...] = tuple(LANDMARK_CLASSES)


def landmark_class(name: str) -> LandmarkClass:
    """The class of that name; a ValueError names the nearest valid ones."""
    if name in LANDMARK_CLASSES:
        return LANDMARK_CLASSES[name]
    near = difflib.get_close_matches(name, LANDMARK_NAMES, n=3, cutoff=0.4)
    lowered = {known.lower(): known for known in LANDMARK_NAMES}
    near = near or [lowered[low] for low in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.3)]
    hint = f"did you mean {' or '.join(near)}?" if near else "see pvn show catalogue for all names"
    raise ValueError(f"unknown landmark class: got {name!r}, expected one of {len(LANDMARK_NAMES)} names; {hint}")
