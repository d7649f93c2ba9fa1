# SPDX-License-Identifier: Apache-2.0
"""`slinky demo`: the whole system on this machine, with real work in it."""

import json
from typing import Annotated

import typer

from slinky.cli.output import Format, explained, print_json, print_table
from slinky.lab import bringup
from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.lab.progress import Progress

NAME = "demo"
Row = dict[str, str]


def demo(
    output: Annotated[Format, typer.Option("-o", "--output", help="text or json.")] = Format.TEXT,
) -> None:
    """Bring up a lab, run a pod and a batch job side by side, and show what happened."""
    with explained(LabError):
        progress = Progress()
        bringup.down(NAME)
        lab = bringup.up(bringup.Options(name=NAME, slurm="beside"), progress)
        with progress.task("a pod"):
            rows = [run_pod(lab)]
        with progress.task("a batch job"):
            rows.append(run_batch(lab))
    if output is Format.JSON:
        print_json(rows)
        return
    typer.echo()
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    typer.echo(_FURTHER)


def run_pod(lab: Lab) -> Row:
    """One real container on one real node."""
    script = "echo hello from a container on $NODE"
    container = {
        "name": "main",
        "image": reference("busybox"),
        "command": ["sh", "-c", script],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"}, "spec": spec}
    lab.kubectl("create", "-f", "-", input=json.dumps(manifest))
    lab.kubectl("wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    placed = lab.api.get("/api/v1/namespaces/default/pods/hello")
    return {
        "SYSTEM": "Kubernetes",
        "WORK": "pod hello",
        "WHERE": placed["spec"]["nodeName"],
        "STATE": placed["status"]["phase"],
        "OUTPUT": lab.kubectl("logs", "hello").strip(),
    }


def run_batch(lab: Lab) -> Row:
    """One real batch job on one real slurmd."""
    said = lab.slurm.sbatch("echo hello from job $SLURM_JOB_ID on $SLURMD_NODENAME").strip()
    recorded = lab.slurm.exec("sacct", "-n", "-X", "-P", "-u", "alice", "-o", "JobID,NodeList,State").splitlines()
    job, where, state = recorded[-1].split("|")
    return {"SYSTEM": "Slurm", "WORK": f"job {job}", "WHERE": where, "STATE": state, "OUTPUT": said}


_FURTHER = f"""
Look further:
  slinky lab status --name {NAME}
  slinky lab exec --name {NAME} control kubectl get pods -A
  slinky lab exec --name {NAME} slurm sinfo
  export KUBECONFIG=$(slinky lab kubeconfig --name {NAME} --path)
Remove every trace: make demo-down
"""
