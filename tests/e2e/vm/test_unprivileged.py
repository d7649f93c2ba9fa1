# SPDX-License-Identifier: Apache-2.0
"""A worker without privileges confines its jobs, with the runtime class of the example."""

import json
from pathlib import Path

import pytest
import yaml
from tests.e2e.vm.confinement_site import (
    ALICE,
    BOB,
    FILES,
    LIMIT_MIB,
    OFFERED_MIB,
    PATIENCE,
    WORKER,
    ConfinementSite,
    eat,
    on_nodes,
    worker,
)
from tests.support.waiting import until

pytestmark = pytest.mark.fault

EXAMPLE = Path(__file__).parents[3] / "examples/operator/unprivileged-workers.yaml"


def test_a_worker_without_privileges_confines_jobs_inside_its_own_cgroup(workers: ConfinementSite) -> None:
    example = {item["kind"]: item for item in yaml.safe_load_all(EXAMPLE.read_text())}
    workers.site.lab.kubectl("apply", "-f", "-", input=json.dumps(example["RuntimeClass"]))
    # The container has no devices that could be GRES.
    workers.site.apply({**FILES, "data": {"gres.conf": "AutoDetect=off\n", **example["ConfigMap"]["data"]}})
    until(lambda: workers.setting("ConstrainDevices") == "no", "the configuration of the example")
    spec = example["NodeSet"]["spec"]
    template = on_nodes("vm", hostname="g-", **spec["template"]["spec"])
    slurmd = {**spec["slurmd"], "resources": {"limits": {"cpu": "2", "memory": f"{LIMIT_MIB}Mi"}}, **PATIENCE}
    first = workers.identity()[0]
    workers.site.apply(worker(slurmd=slurmd, template=template, extraConf="Weight=2"))
    until(lambda: workers.site.uids().get(WORKER, first) != first, "another worker")
    workers.wait_worker()
    before = workers.identity()
    assert workers.run_job(ALICE, eat(300), "--mem=100M")[0] == "OUT_OF_MEMORY"
    state, output = workers.run_job(BOB, "nproc", "--mem=100M")
    assert (state, output) == ("COMPLETED", "1\n")
    assert workers.run_job(ALICE, eat(LIMIT_MIB + 300), f"--mem={OFFERED_MIB}M")[0] == "OUT_OF_MEMORY"
    assert workers.identity() == before
