"""Other worlds, and scripts written for them."""
