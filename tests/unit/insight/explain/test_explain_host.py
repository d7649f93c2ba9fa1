# SPDX-License-Identifier: Apache-2.0
"""A node is explained by its state, owner, reason, jobs and reservations."""

from tests.unit.insight.queues import NOW, cluster, host, running

from slinky.insight.explain import explain_host
from slinky.slurm import Reservation, number


def test_a_drained_node_names_who_drained_it_and_why() -> None:
    node = host("n1", words=("MIXED", "DRAIN"), reason="fan", reason_set_by_user="ops", alloc_cpus=4)
    text = explain_host(node, cluster(running(3, "n[1-2]"), hosts=(node,))).paragraph()
    assert "n1 is draining by ops: fan" in text
    assert "It runs job 3 of alice until 50 min from now" in text
    assert "12 of 16 CPUs" in text
    assert "scontrol update NodeName=n1 State=RESUME" in text


def test_an_idle_node_has_no_finding() -> None:
    maintenance = Reservation(name="m", node_list="n1", start_time=number(NOW + 3600), end_time=number(NOW + 7200))
    explanation = explain_host(host("n1"), cluster(hosts=(host("n1"),), reservations=(maintenance,)))
    assert explanation.findings == ()
    assert "No job runs on it. The reservation m has it in 1 h." in explanation.paragraph()


def test_a_node_that_is_down_says_what_to_look_at() -> None:
    node = host("n1", words=("DOWN", "NOT_RESPONDING"))
    assert "slurmd on n1" in explain_host(node, cluster(hosts=(node,))).paragraph()
