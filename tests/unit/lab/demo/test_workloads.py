# SPDX-License-Identifier: Apache-2.0
"""The cores of jobs, as scontrol shows them."""

import pytest

from slinky.lab.demo.workloads import check_cores, cores_of
from slinky.lab.errors import LabError

LINE = (
    "JobId=7 JobState=RUNNING NodeList=node[1-3] NumNodes=3 JOB_GRES=(null) "
    "Nodes=node[1-2] CPU_IDs=0-1 Mem=64 GRES= Nodes=node3 CPU_IDs=1 Mem=32 GRES= MinCPUsNode=1"
)


def test_the_cores_of_a_job_are_read_by_hosts() -> None:
    assert cores_of(LINE) == {"node[1-2]": "0-1", "node3": "1"}
    assert cores_of("JobId=8 JobState=PENDING ReqNodeList=(null)") == {}


def test_a_core_with_two_jobs_is_an_error() -> None:
    check_cores({"7": cores_of(LINE), "8": {"node3": "0"}})
    with pytest.raises(LabError, match="jobs 7 and 9 both have core 1 of node2"):
        check_cores({"7": cores_of(LINE), "9": {"node[2-3]": "1"}})
