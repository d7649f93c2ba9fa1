# SPDX-License-Identifier: Apache-2.0
"""The text of slurmctld's own metrics, and the redirection of a standby."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.bounds import NATIVE_METRICS_MAX
from slinky.slurm import Malformed
from slinky.slurm.native_metrics import parse_metrics, redirect_base

TEXT = """# HELP slurm_bf_active Backfill active
# TYPE slurm_bf_active gauge
slurm_bf_active 1
slurm_node_cpus{node="a\" 5} 3
slurm_odd NaN
slurm_worse inf
slurm_none
slurm_cycle_mean 2.5
"""


def test_lines_with_a_name_and_a_number_count_and_others_do_not() -> None:
    assert parse_metrics(TEXT) == {"slurm_bf_active": 1.0, "slurm_cycle_mean": 2.5}


@given(st.text(max_size=200))
def test_any_text_is_metrics_or_malformed(text: str) -> None:
    with contextlib.suppress(Malformed):
        assert all(name.isidentifier() for name in parse_metrics(text))


def test_endless_metrics_are_cut_off() -> None:
    assert len(parse_metrics("".join(f"m{index} 1\n" for index in range(5000)))) == NATIVE_METRICS_MAX


@pytest.mark.parametrize(
    ("location", "base"),
    [
        ("http://ctl-1:6817/metrics/scheduler", "http://ctl-1:6817"),
        ("https://[::1]:6817/metrics/scheduler", "https://[::1]:6817"),
    ],
)
def test_the_redirection_of_a_standby_names_the_primary(location: str, base: str) -> None:
    assert redirect_base(location) == base


@pytest.mark.parametrize(
    "location",
    ["", "/metrics/scheduler", "ftp://ctl/metrics/scheduler", "http://ctl/metrics/nodes", "http://u@ctl/metrics/scheduler",
     "http://[::1/metrics/scheduler", "http:///metrics/scheduler"],
)  # fmt: skip
def test_any_other_redirection_is_refused(location: str) -> None:
    with pytest.raises(Malformed, match="redirection"):
        redirect_base(location)
