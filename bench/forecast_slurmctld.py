# SPDX-License-Identifier: Apache-2.0
"""The accuracy of forecasts on generated days that a real slurmctld schedules, beside that of its `start_time`.

The days are those of `bench.forecast_days`. The clock of slurmctld is set forward between events, so that two days take
less than a minute. No further days are begun once the budget is spent.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench.faked_slurmctld import PARTITION, FakedClock, faked_slurmctld
from bench.forecast_days import DAYS, LOAD, NODES, RESULTS, SEEDS
from bench.workloads.lublin import USERS, generate_workload
from bench.workloads.replay import ReplayedJob
from bench.workloads.report import write_report
from bench.workloads.slurmctld_replay import SlurmctldReplay
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient

#: Seconds after which no further days are begun.
BUDGET = 300
#: The lifetime of the token: slurmctld's clock runs ahead of the one with which the token is made.
TOKEN_SECONDS = 365 * 86400


async def replay_days(
    slurm: LabSlurm, clock: FakedClock, seeds: Iterable[int], budget: float
) -> tuple[list[ReplayedJob], dict[str, object]]:
    """The jobs that had to wait, and facts about the replay."""
    begun = time.monotonic()
    waited: list[ReplayedJob] = []
    submitted = days = without_plan = without_range = 0
    async with SlurmClient(slurm.url, slurm.token("slurm", TOKEN_SECONDS)) as client:
        for seed in seeds:
            if time.monotonic() - begun > budget:
                break
            workload = generate_workload(seed, NODES, DAYS, LOAD)
            replay = SlurmctldReplay(client, clock, workload, PARTITION)
            waited += await replay.run()
            submitted, days = submitted + len(workload), days + DAYS
            without_plan, without_range = without_plan + replay.without_plan, without_range + replay.without_range
            print(f"seed {seed}: {len(workload)} jobs after {time.monotonic() - begun:.0f} s", flush=True)
    facts: dict[str, object] = {"days": days, "submitted": submitted, "looks without a plan of slurmctld": without_plan}
    return waited, facts | {"looks without a range": without_range, "seconds": round(time.monotonic() - begun)}


def main() -> int:
    """Write table, figures and plot; fail if slurmctld's own plan is better in any figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="seeds of the generated days")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds after which no further days are begun")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    with faked_slurmctld(NODES, (f"user{number}" for number in range(USERS))) as (slurm, clock):
        jobs, facts = asyncio.run(replay_days(slurm, clock, options.seeds, options.budget))
    if not jobs:
        print("no job of the workload had to wait")
        return 1
    return 0 if write_report(jobs, options.output, "forecast_slurmctld", facts) else 1


if __name__ == "__main__":
    sys.exit(main())
