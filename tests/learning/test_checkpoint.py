"""Files of tensors: they are read as they were written, or not at all."""

import pytest
import torch
from safetensors.torch import save_file

from pvn.learning.checkpoint import read_tensors, write_tensors

TENSORS = {
    "number": torch.tensor(3),
    "nothing": torch.zeros(0, 3),
    "short": torch.linspace(-1, 1, 4).bfloat16(),
    "switches": torch.tensor([True, False]),
    "turned": torch.arange(6.0).view(2, 3).T,
}


def test_tensors_of_all_kinds_are_read_as_they_were_written(tmp_path):
    write_tensors(tmp_path / "all.safetensors", TENSORS)
    found = read_tensors(tmp_path / "all.safetensors")
    assert found.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert torch.equal(found[name], value) and found[name].dtype == value.dtype


@pytest.mark.long
def test_one_bit_that_changed_is_noticed_wherever_it_is(tmp_path):
    path = tmp_path / "all.safetensors"
    write_tensors(path, TENSORS)
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            found = read_tensors(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:  # a space of the header, at most
            assert all(torch.equal(found[name], value) for name, value in TENSORS.items()), place


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"sha256": "0"}, {"sha256, version 0": "0"}])
def test_files_of_other_versions_or_without_a_checksum_are_refused(metadata, tmp_path):
    save_file({"a": torch.ones(3)}, tmp_path / "other.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match=r"other\.safetensors: not written by this version of pvn, or damaged"):
        read_tensors(tmp_path / "other.safetensors")
