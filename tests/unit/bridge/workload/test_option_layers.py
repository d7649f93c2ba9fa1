# SPDX-License-Identifier: Apache-2.0
"""Which of several values of an option counts, and what is reported about the others."""

import pytest

from slinky.bridge import names
from slinky.bridge.workload import annotations, suggestion
from slinky.bridge.workload.option_layers import NOTES_MAX, OptionLayer, merge_layers

NEW, OLD = names.OPTION, names.OLD_OPTION


def layer(source: str, **options: str) -> OptionLayer:
    return OptionLayer(source, {NEW + name: value for name, value in options.items()})


def test_the_topmost_value_counts_and_the_others_are_merged() -> None:
    chain = [layer("Pod a", qos="low", account="x"), layer("Job j", qos="high"), layer("JobSet s", partition="gpu")]
    merged = merge_layers([chain])
    assert merged.annotations == {NEW + "qos": "high", NEW + "account": "x", NEW + "partition": "gpu"}
    assert merged.notes == ("the option qos of Pod a has no effect ('low'), because Job j sets it to 'high'",)


def test_equal_values_are_no_conflict() -> None:
    assert merge_layers([[layer("ReplicaSet r", qos="high"), layer("Deployment d", qos=" high ")]]).notes == ()


def test_in_a_gang_the_pod_of_the_lowest_rank_decides() -> None:
    top = layer("JobSet s", account="x")
    chains = [[layer("Pod a"), layer("Job j-0", qos="high"), top], [layer("Pod b", qos="low", wckey="w"), top]]
    merged = merge_layers(chains)
    assert merged.annotations == {NEW + "qos": "high", NEW + "account": "x", NEW + "wckey": "w"}
    assert merged.notes == ("the option qos of Pod b has no effect ('low'), because Job j-0 sets it to 'high'",)


def test_the_number_of_notes_is_bounded() -> None:
    chains = [[layer(f"Pod {i}", qos=f"q{i}")] for i in range(50)]
    assert len(merge_layers(chains).notes) == NOTES_MAX


def test_an_option_with_the_old_prefix_counts_and_its_new_name_is_reported() -> None:
    merged = merge_layers([[OptionLayer("Job j", {OLD + "job-name": "x", OLD + "slurm-node": "n1"})]])
    assert merged.annotations == {NEW + "job-name": "x"}
    assert merged.notes == ("Job j: slinky.slurm.net/job-name is an old name; use slurmjob.slinky.slurm.net/job-name",)


@pytest.mark.parametrize("option", annotations.TABLE, ids=lambda option: option.name)
def test_every_option_has_both_prefixes_and_the_new_one_has_precedence(option: annotations.Option) -> None:
    old = {OLD + option.name: option.example}
    assert annotations.parse_options(old) == annotations.parse_options({NEW + option.name: option.example})
    both = {OLD + option.name: "\n", NEW + option.name: option.example}
    assert annotations.option_values(both) == {option.name: option.example}
    (text,) = annotations.old_options(both)
    assert "has no effect beside" in text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("time-limit", "timelimit"),
        ("jobname", "job-name"),
        ("cpus-per-task", "cpu-per-task"),
        ("Partition", "partition"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_option_is_reported_with_the_nearest_one(wrong: str, right: str) -> None:
    (text,) = annotations.unknown_options({NEW + wrong: "x"})
    assert text == f"{NEW}{wrong} is not a job option" + (f"; did you mean {right}?" if right else "")


def test_an_unknown_option_is_not_dropped_in_silence() -> None:
    merged = merge_layers([[layer("Pod a", timlimit="1")]])
    assert merged.annotations == {}
    assert "did you mean timelimit?" in merged.notes[0]


@pytest.mark.parametrize(
    ("name", "known", "nearest"), [("gpuu", ["cpu", "gpu"], "gpu"), ("x", ["gpu"], ""), ("a", [], "")]
)
def test_the_nearest_name(name: str, known: list[str], nearest: str) -> None:
    assert suggestion.nearest_name(name, known) == nearest
    assert suggestion.nearest_name("n" * 10_000, ["m" * 10_000]) == ""
