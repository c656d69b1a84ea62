"""The shape of each landmark class, built from solids."""

from pvn.world.models.display import DISPLAY
from pvn.world.models.plants import PLANTS
from pvn.world.models.structures import STRUCTURES
from pvn.world.models.things import THINGS
from pvn.world.models.vessels import VESSELS

MODELS = PLANTS | STRUCTURES | VESSELS | THINGS
DISPLAY_MODELS = MODELS | DISPLAY
