"""What the instruction says about each cell of the map."""

import pytest
import torch

from pvn.model.instruction import EncodedInstructions
from pvn.model.mapping import HEADS, WordAttention, empty_memory
from pvn.model.visitation import VisitationConfig, VisitationModel


def instructions(num_words=5, count=3):
    """Random words; the first sentence has two of them, the last one."""
    generator = torch.Generator().manual_seed(1)
    is_word = torch.ones(count, num_words, dtype=torch.bool)
    is_word[0, 2:], is_word[-1, 1:] = False, False
    return EncodedInstructions(
        torch.randn((count, 6), generator=generator), torch.randn((count, num_words, 20), generator=generator), is_word
    )


@torch.no_grad()
def test_each_head_of_a_cell_takes_the_mean_of_the_words_that_match_it():
    torch.manual_seed(0)
    attention, told, cells = WordAttention(20, 8), instructions(), torch.randn(3, 16, 32)
    taken = attention(cells, told)
    keys, values = attention.key(told.words).view(3, 5, HEADS, 33), attention.value(told.words).view(3, 5, HEADS, 4)
    for sentence, num_words in enumerate((2, 5, 1)):
        for head in range(HEADS):
            features, score = keys[sentence, :num_words, head, :32], keys[sentence, :num_words, head, 32]
            weights = (cells[sentence] @ features.T / 32**0.5 + score).softmax(-1)
            expected = weights @ values[sentence, :num_words, head]
            assert torch.allclose(taken[sentence, :, 4 * head : 4 * head + 4], expected, atol=1e-5)


def test_channels_that_the_heads_cannot_share_are_refused():
    with pytest.raises(ValueError, match="attention_channels: got 31, expected a multiple of the 2 heads"):
        VisitationModel(VisitationConfig(num_words=12, attention_channels=31))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return VisitationModel(
        VisitationConfig(num_words=12, attention_channels=8, knows_unseen=True, has_quick_encoder=True)
    ).eval()


def with_cells(model, seed=0):
    """A map of one flight, half of which was seen."""
    memory = empty_memory(1, model.places)
    memory.value[:, :2048] = torch.randn((1, 2048, 32), generator=torch.Generator().manual_seed(seed))
    memory.is_known[:, :2048] = True
    return memory


@torch.no_grad()
def test_the_words_reach_the_prediction_through_the_cells_too(model):
    """With the embedding held fixed, other words change the grounding map and the prediction."""
    memory, told = with_cells(model), model.encode(torch.tensor([[3, 4, 5]]))
    other = model.encode(torch.tensor([[3, 4, 6]]))
    swapped = EncodedInstructions(told.embedding, other.words, other.is_word)
    before, after = model.predict(memory, told), model.predict(memory, swapped)
    channels = model.config.grounding_channels
    assert before.maps.grounding_map.shape == (1, channels + 8, 64, 64)
    assert torch.equal(before.maps.grounding_map[:, :channels], after.maps.grounding_map[:, :channels])
    assert (before.log_probability - after.log_probability).abs().max() > 1e-3


@torch.no_grad()
def test_the_prediction_depends_on_which_cells_were_seen(model):
    """Cells that look like nothing and cells never seen have the same features; the model is told them apart."""
    memory, told = with_cells(model), model.encode(torch.tensor([[3, 4, 5]]))
    before = model.predict(memory, told).log_probability
    memory.is_known[:, 2048:] = True
    assert (model.predict(memory, told).log_probability - before).abs().max() > 1e-3


@torch.no_grad()
def test_the_quick_image_encoder_has_features_where_the_papers_are(model):
    """Feature j is centred on pixel 4 j: it does not depend on pixels beyond its neighbourhood."""
    from pvn.model.resnet import ResNet

    image = torch.randint(0, 256, (1, 72, 128, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert model.resnet(image).shape == ResNet()(image).shape == (1, 32, 18, 32)
    # Through one convolution, without norms, a bright pixel is brightest in the feature centred on it.
    first = model.resnet.first
    spot = torch.zeros(1, 3, 72, 128)
    spot[:, :, 40, 64] = 1.0
    rows, columns = first(spot).sub(first.bias[:, None, None]).abs().sum((0, 1)).nonzero().T
    assert (rows.float().mean(), columns.float().mean()) == (20, 32)
