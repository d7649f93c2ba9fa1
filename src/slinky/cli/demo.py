# SPDX-License-Identifier: Apache-2.0
"""`slinky demo`: the whole system on this machine, with real workloads."""

from typing import Annotated

import typer

from slinky.cli.output import Format, explained, print_json, print_table
from slinky.lab import bringup
from slinky.lab.demo.charts import MANAGED_SPACE, SPACE, LabCharts
from slinky.lab.demo.elastic import CHANGES, ElasticRun
from slinky.lab.demo.queue_outlook import PAGE_ADDRESS, QueueOutlook, page_steps
from slinky.lab.demo.workloads import COLUMNS, DemoRun
from slinky.lab.errors import LabError
from slinky.lab.progress import Progress

NAME, NODES = "demo", 3

app = typer.Typer(rich_markup_mode=None)


@app.command()
def demo(
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format: text or json.")] = Format.TEXT,
) -> None:
    """Create a Kubernetes with a Slurm cluster, and run pods and an sbatch job in one queue."""
    with explained(LabError):
        progress = Progress()
        bringup.down(NAME)
        site = LabCharts(bringup.up(bringup.LabOptions(name=NAME, nodes=NODES), progress))
        show = DemoRun(site)
        steps = {
            "load the slinky image on every node": lambda: site.load_slinky(progress),
            "install the operator chart": site.install_operator,
            "install a Slurm cluster with its chart": lambda: site.install_cluster(elastic=True),
            "install the bridge chart": site.install_bridge,
            "start a Job with a GPU, a PodGroup of two pods, a JobSet of two jobs": show.fill,
            "run an sbatch job on the core that is left": show.share,
            f"submit an sbatch job that needs {NODES} whole nodes, and a LeaderWorkerSet; both wait": show.crowd,
            "end the pods; the sbatch job runs, then the LeaderWorkerSet starts": show.clear,
        }
        for name, step in steps.items():
            with progress.task(name):
                step()
        rows = show.rows()
        with progress.task("delete the LeaderWorkerSet; the nodes are free"):
            show.free()
        elastic = ElasticRun(site)
        with progress.task("submit an sbatch job for two workers that do not exist; they come, and go after it"):
            elastic.run()
        changes = elastic.rows()
        outlook = QueueOutlook(site)
        with progress.task("submit an sbatch job that takes every node, and one that waits for it"):
            outlook.fill()
        queue, explanation = outlook.queue(), outlook.explanation()
    if output is Format.JSON:
        answers = {"queue": queue, "explain": explanation, "page": PAGE_ADDRESS}
        print_json({"jobs": rows, "autoscaler": changes, **answers})
        return
    typer.echo()
    print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    typer.echo("\nWhat the autoscaler of the NodeSet `elastic` did:\n")
    print_table(CHANGES, [[row[column] for column in CHANGES] for row in changes])
    typer.echo(f"\n$ slinky queue\n{queue}\n\n$ slinky explain {outlook.waiting}\n{explanation}\n")
    typer.echo(page_steps(NAME))
    typer.echo(_FURTHER)


_FURTHER = f"""
Look further:
  slinky lab exec --name {NAME} control kubectl get pods -n {MANAGED_SPACE} -o wide
  slinky lab exec --name {NAME} control kubectl describe pods -n {MANAGED_SPACE} -l demo
  slinky lab exec --name {NAME} control kubectl exec -n {SPACE} slurm-controller-0 -c slurmctld -- squeue
  slinky lab exec --name {NAME} control kubectl exec -n {SPACE} slurm-controller-0 -c slurmctld -- scontrol show nodes
  slinky lab exec --name {NAME} control kubectl get controllers,restapis,nodesets,tokens,pods -n {SPACE}
  export KUBECONFIG=$(slinky lab kubeconfig --name {NAME} --path)
Remove the demo: make demo-down
"""
