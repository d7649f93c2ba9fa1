# SPDX-License-Identifier: Apache-2.0
"""The accuracy of forecasts on generated days, or on a workload in SWF, beside that of slurmctld's planned starts.

`python -m bench.forecast_days` replays days of the Lublin-Feitelson model; `--swf FILE --nodes N` replays a file.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.workloads.lublin import generate_workload
from bench.workloads.replay import Replay, ReplayedJob
from bench.workloads.report import write_report
from bench.workloads.swf import read_swf

RESULTS = Path(__file__).parent / "results"
#: Each seed gives the jobs of `DAYS` days on `NODES` nodes; the load is the share of the nodes that they need.
SEEDS, NODES, DAYS, LOAD = range(101, 109), 128, 2, 0.9


def replay_generated(seeds: Iterable[int]) -> list[ReplayedJob]:
    """The jobs of generated days that had to wait."""
    return [job for seed in seeds for job in Replay(generate_workload(seed, NODES, DAYS, LOAD), NODES).run()]


def replay_file(path: Path, nodes: int, processors: int) -> list[ReplayedJob]:
    """The jobs of a file that had to wait."""
    with path.open(errors="replace") as lines:
        return Replay(list(read_swf(lines, processors)), nodes).run()


def main() -> int:
    """Write table, figures and plot; fail if slurmctld's own plan is better in any figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swf", type=Path, help="workload file in SWF instead of generated days")
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of the cluster of the file")
    parser.add_argument("--processors", type=int, default=1, help="processors per node of the file")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    is_file = options.swf is not None
    jobs = replay_file(options.swf, options.nodes, options.processors) if is_file else replay_generated(SEEDS)
    if not jobs:
        print("no job of the workload had to wait")
        return 1
    return 0 if write_report(jobs, options.output, "forecast", {}) else 1


if __name__ == "__main__":
    sys.exit(main())
