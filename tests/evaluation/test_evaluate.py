"""Evaluation from Python: who may fly over what, and what is saved."""

from dataclasses import replace
from pathlib import Path

import pytest

import pvn
from pvn.corpus.segments import Corpus
from pvn.evaluation.evaluate import evaluate, make_pilots, read_split
from pvn.evaluation.pilots import load_pilot
from pvn.systems import FlightChanges, shipped_weights


@pytest.mark.long
def test_summaries_come_in_the_order_of_the_agents_and_nothing_is_saved(meadow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    oracle, stop = evaluate(
        ["oracle", load_pilot("stop")],
        meadow,
        limit=3,
        watch=lambda name, done, total: seen.append((name, done, total)),
    )
    assert (oracle.system, stop.system) == ("oracle", "stop")
    assert oracle.overall.sr.value == 100 and stop.overall.steps.value == 1 and oracle.overall.flights == 3
    assert seen[0] == ("oracle", 0, 3) and seen[-1] == ("stop", 3, 3)
    assert not any(Path().iterdir())


@pytest.mark.long
def test_a_folder_of_a_corpus_and_a_folder_for_results(meadow, tmp_path):
    from pvn.corpus.store import write_corpus

    write_corpus(meadow, tmp_path / "corpus")
    first = evaluate("average", tmp_path / "corpus", split="test", limit=4, out=tmp_path / "results")
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "average_test_4.json",
        "average_test_4.safetensors",
    ]
    assert evaluate("average", meadow, split="test", limit=4, out=tmp_path / "results") == first


@pytest.mark.long
def test_an_agent_flies_the_same_by_name_by_file_and_loaded(meadow, shipped_pvn):
    agents = ["pvn", shipped_weights("pvn"), shipped_pvn]
    by_name, by_file, loaded = (evaluate(agent, meadow, limit=1)[0] for agent in agents)
    assert by_name.overall == by_file.overall == loaded.overall
    assert [summary.system for summary in (by_name, by_file, loaded)] == ["pvn", "weights", "own-pvn"]


def test_the_fingerprint_of_a_loaded_agent_changes_with_its_weights(shipped_pvn):
    import copy

    import torch

    (before,) = make_pilots(shipped_pvn)
    other = copy.deepcopy(shipped_pvn)
    assert make_pilots(other)[0].fingerprint == before.fingerprint
    with torch.no_grad():
        next(iter(other.networks["execution"].parameters())).add_(1e-3)
    assert make_pilots(other)[0].fingerprint != before.fingerprint


def test_changed_flights_have_another_name_and_fingerprint(shipped_pvn):
    plain, changed, slow = (
        make_pilots("pvn", changes=changes)[0]
        for changes in (FlightChanges(), FlightChanges(altitude=2.5, yaw_factor=2), FlightChanges(plan_every=12))
    )
    assert [pilot.name for pilot in (plain, changed, slow)] == ["pvn", "pvn_altitude2.5_yaw2", "pvn_plan12"]
    assert len({pilot.fingerprint for pilot in (plain, changed, slow)}) == 3
    assert changed.config.altitude == 2.5 and slow.agent.plan_every == 12


def test_only_what_comes_from_a_source_is_flown(meadow, tmp_path):
    one, two, three = meadow["dev"][:3]
    natural = replace(two, environment=10**6, source="natural")
    corpus = Corpus("mixed", {"dev": (one, natural, three)})
    flown = {source: read_split(corpus, "dev", 1, source=source)[0] for source in (None, "phrases", "natural")}
    assert flown == {None: (one,), "phrases": (one,), "natural": (natural,)}
    (summary,) = evaluate("stop", corpus, source="natural", out=tmp_path)
    assert summary.overall.flights == 1 and (tmp_path / "stop_dev_natural.json").exists()
    with pytest.raises(ValueError, match="source: got narrated, expected one that split dev .* has: phrases, natural"):
        evaluate("stop", corpus, source="narrated")
    with pytest.raises(ValueError, match="source: got 'people', expected one of phrases, natural, narrated, lani"):
        evaluate("stop", corpus, source="people")


def test_it_is_public():
    assert pvn.evaluate is evaluate


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": []}, "agents: got none"),
        ({"limit": 0}, "limit: got 0, expected at least 1"),
        ({"agents": "pnv"}, "did you mean pvn?"),
        ({"agents": ["stop", "stop"]}, "two that are called stop"),
    ],
)
def test_what_cannot_be_flown_is_refused(options, message, meadow):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        evaluate(**{"agents": "stop", "corpus": meadow} | options)


def test_an_agent_that_does_not_know_the_words_is_refused_before_anyone_flies(meadow, tmp_path):
    segment = meadow["dev"][0]
    task = replace(segment.task, instruction="zyzzyva qwertz blorb")
    strange = Corpus("strange", {"dev": (replace(segment, demonstration=replace(segment.demonstration, task=task)),)})
    with pytest.raises(ValueError, match="pvn: does not know 100% of the corpus's words"):
        evaluate(["stop", "pvn"], strange, out=tmp_path / "results")
    assert not (tmp_path / "results").exists()
