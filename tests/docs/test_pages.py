# SPDX-License-Identifier: Apache-2.0
"""`make docs-test`: the commands of the pages, in the order in which a reader follows them, on a real cluster."""

from collections.abc import Iterator

import pytest
import yaml
from tests.conftest import MakeLab
from tests.docs.page_stage import PageStage, cluster_values
from tests.support.doc_blocks import ROOT, all_blocks
from tests.support.doc_order import BRIDGE, DEMO, OPERATOR
from tests.support.doc_table import BLOCKS, Run

pytestmark = pytest.mark.lab
ALL = all_blocks()
#: Parts of the output of blocks that show that the commands did what the page says.
OUTPUT = {
    "docs/bridge/install.md#5-try-it": "hello from hello",
    "docs/first-pod.md#run-it:2": "hello from hello",
    "docs/first-job.md#see-the-queue": "waiting",
    "docs/first-job.md#see-the-queue:2": "waiting",
    "docs/first-pod.md#make-it-wait": "pending",
    "docs/start.md#on-one-machine-with-nothing-installed:3": "node3",
    "docs/operator/metrics.md#metrics-of-the-operator": "slinky_operator_",
}
#: The sizes of examples/operator/values.yaml are those of real machines. The only worker is on node3; the other nodes
#: are for the bridge.
SMALL_CLUSTER = {
    "nodesets": {
        "cpu": {
            "replicas": 1,
            "slurmd": {"resources": {"limits": None}},
            "podSpec": {"nodeSelector": {"kubernetes.io/hostname": "node3"}},
        },
        "gpu": {"replicas": 0},
    }
}


@pytest.fixture(scope="module")
def stage(make_lab: MakeLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageStage]:
    """A lab of three nodes with nothing installed."""
    yield PageStage(make_lab(nodes=3), tmp_path_factory.mktemp("pages"))


def follow(stage: PageStage, keys: tuple[str, ...]) -> None:
    for key in keys:
        treatment = BLOCKS[key]
        assert isinstance(treatment, Run)
        if treatment.before:
            stage.run(treatment.before)
        output = stage.run(ALL[key].commands())
        assert OUTPUT.get(key, "") in output, f"{key}: {output}"
        if treatment.after:
            stage.run(treatment.after)


def bridge_settings() -> str:
    """The lines of slurm.conf in step 1 of the bridge's page, without those that the operator writes itself."""
    page = (ROOT / "docs/bridge/install.md").read_text()
    lines = page.partition("## 1. Prepare Slurm")[2].split("```")[1].strip().splitlines()
    return "\n".join(line.partition("#")[0].rstrip() for line in lines if not line.startswith("AuthAlt"))


def test_the_operator_and_a_cluster_are_installed(stage: PageStage) -> None:
    values = cluster_values() | SMALL_CLUSTER
    values["controller"]["extraConf"] = bridge_settings()
    stage.write_values("slurm", values)
    follow(stage, OPERATOR)


def test_the_bridge_is_installed_and_removed(stage: PageStage) -> None:
    follow(stage, BRIDGE)


def test_the_first_job_and_the_first_pod_run(stage: PageStage) -> None:
    stage.write_values("slurm", cluster_values())
    own = yaml.safe_load((ROOT / "examples/bridge/hybrid-values.yaml").read_text())
    own["controller"]["extraConfMap"] |= cluster_values()["controller"]["extraConfMap"]
    (stage.folder / "values.yaml").write_text(yaml.safe_dump(cluster_values() | own))
    follow(stage, DEMO)
