# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests."""

from slinky.slurm import JobRequest
from slinky.slurm.model.requests import fold_hosts


def test_excluded_hosts_are_sent_as_one_hostlist() -> None:
    names = tuple(f"node{number}" for number in range(1000))
    assert fold_hosts(JobRequest(excluded_nodes=(*names, "gpu1"))).excluded_nodes == ("gpu1,node[0-999]",)


def test_a_request_without_many_excluded_hosts_is_sent_as_it_is() -> None:
    for hosts in (None, (), ("",), ("node1",)):
        request = JobRequest(excluded_nodes=hosts)
        assert fold_hosts(request) is request
