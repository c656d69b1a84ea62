"""What tests of the generator share."""

import json

import pytest


@pytest.fixture
def bank_file(tmp_path):
    """Writes a small phrase bank with some keys changed, and gives its path."""

    def write(**changes):
        content = {
            "author": "me",
            "phrases": [{"do": ["goto A"], "say": "fly to {A} now"}, {"do": ["pass A left"], "say": "keep {A} left"}],
        }
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(content | changes))
        return path

    return write
