"""The shape of each landmark class, built from solids."""

from pvn.world.models.plants import PLANTS
from pvn.world.models.structures import STRUCTURES
from pvn.world.models.things import THINGS
from pvn.world.models.vessels import VESSELS

MODELS = PLANTS | STRUCTURES | VESSELS | THINGS
