# SPDX-License-Identifier: Apache-2.0
"""The decisions about a workload, one module per phase of its life: pure functions from a snapshot to actions.

| phase | module | question |
| --- | --- | --- |
| all | `workload` | which phase is each job of the workload in? |
| admit, submit | `admit` | is the gang complete, can it ever run, may it be submitted now? |
| wait, revise | `wait` | why is the job pending, and does it still match its pods? |
| place | `place` | are the nodes of the job usable now, later, or not at all? |
| run | `run` | does each pod report its node? |
| recover | `recover` | what becomes of running pods whose job Slurm has lost? |
| end | `end` | what becomes of pods whose job has ended? |
| release | `release` | which jobs and finalizers does no pod need any more? |
"""
