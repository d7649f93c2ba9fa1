# SPDX-License-Identifier: Apache-2.0
"""`slinky demo`: the whole system on this machine, with real work in it."""

import json
from typing import Annotated, Any

import typer

from slinky.cli.output import Format, explained, print_json, print_table
from slinky.lab import bringup
from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.lab.progress import Progress
from slinky.lab.site import SPACE, Site

NAME, GANG_SPACE = "demo", "bridged"
COLUMNS = ("WORK", "SUBMITTED TO", "SLURM JOB", "WHERE", "STATE", "OUTPUT")
Row = dict[str, str]


def demo(
    output: Annotated[Format, typer.Option("-o", "--output", help="text or json.")] = Format.TEXT,
) -> None:
    """Make a cluster, a Slurm on it, and run a batch job and a gang of pods side by side."""
    with explained(LabError):
        progress = Progress()
        bringup.down(NAME)
        lab = bringup.up(bringup.Options(name=NAME), progress)
        site = Site(lab)
        steps = {
            "slinky's own image on every node": lambda: site.load_slinky(progress),
            "the operator, by its chart": site.install_operator,
            "a Slurm cluster, by its chart": site.install_cluster,
            "the bridge, by its chart": site.install_bridge,
        }
        for name, step in steps.items():
            with progress.task(name):
                step()
        with progress.task("a batch job and a gang of pods"):
            submit_gang(lab)
            rows = [run_batch(site), *gang_rows(lab)]
    if output is Format.JSON:
        print_json(rows)
        return
    typer.echo()
    print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    typer.echo(_FURTHER)


def run_batch(site: Site) -> Row:
    """A job of Slurm's own, on a worker that is a pod; its output stays where it ran."""
    script = 'sbatch --wait --parsable --chdir=/tmp --output=demo.out --wrap="echo hello from job \\$SLURM_JOB_ID"'
    job = site.slurm("sh", "-c", script).strip()
    shown = site.slurm("scontrol", "-o", "show", "job", job).split()
    found = dict(field.split("=", 1) for field in shown if "=" in field)
    said = site.on_worker(found["NodeList"], "cat", "/tmp/demo.out").strip()  # noqa: S108 - in a pod of its own
    return _row("sbatch", "Slurm", job, found["NodeList"], found["JobState"], said)


def submit_gang(lab: Lab) -> None:
    """Two pods that start together or not at all, scheduled by Slurm."""
    command = "echo rank $JOB_COMPLETION_INDEX on $NODE"
    container = {
        "name": "main",
        "image": reference("busybox"),
        "command": ["sh", "-c", command],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    spec = {"restartPolicy": "Never", "schedulerName": "slurm-bridge-scheduler", "containers": [container]}
    member = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "gang"}}, "spec": spec}
    work = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": member}
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GANG_SPACE}},
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": GANG_SPACE},
            "spec": {"minMember": 2},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "gang", "namespace": GANG_SPACE},
            "spec": work,
        },
    ]
    items = {"apiVersion": "v1", "kind": "List", "items": manifests}
    lab.kubectl("create", "-f", "-", input=json.dumps(items))


def gang_rows(lab: Lab) -> list[Row]:
    """What became of the gang, pod by pod."""
    lab.kubectl("wait", "-n", GANG_SPACE, "job/gang", "--for=condition=Complete", "--timeout=180s")
    rows = []
    for pod in lab.api.get(f"/api/v1/namespaces/{GANG_SPACE}/pods")["items"]:
        name = pod["metadata"]["name"]
        job = pod["metadata"]["labels"].get("scheduler.slinky.slurm.net/slurm-jobid", "")
        said = lab.kubectl("logs", "-n", GANG_SPACE, name).strip()
        rows.append(_row(f"pod {name}", "Kubernetes", job, pod["spec"]["nodeName"], pod["status"]["phase"], said))
    return rows


def _row(*cells: str) -> Row:
    return dict(zip(COLUMNS, cells, strict=True))


_FURTHER = f"""
Look further:
  slinky lab status --name {NAME}
  slinky lab exec --name {NAME} control kubectl get controllers,restapis,nodesets,tokens,pods -n {SPACE}
  slinky lab exec --name {NAME} control kubectl exec -n {SPACE} slurm-controller-0 -c slurmctld -- sinfo
  export KUBECONFIG=$(slinky lab kubeconfig --name {NAME} --path)
Remove every trace: make demo-down
"""
