# SPDX-License-Identifier: Apache-2.0
"""Qualities of service and their limits, in requests and responses."""

from slinky.slurm.model.accounts import TresMinutes, TresPer
from slinky.slurm.model.values import UNSET, Number, Tres, Value

Words = tuple[str, ...]
Amounts = tuple[Tres, ...]


class PerAccountAndUser(Value, frozen=True, gc=False):
    """A limit per account and per user."""

    account: Number = UNSET
    user: Number = UNSET


class ActiveJobs(Value, frozen=True, gc=False):
    """Limits on active jobs."""

    accruing: Number = UNSET
    count: Number = UNSET


class ActivePer(Value, frozen=True, gc=False):
    """Limits on active jobs per account and per user."""

    per: PerAccountAndUser = PerAccountAndUser()


class QosJobs(Value, frozen=True, gc=False):
    """Limits on the number of jobs of a QOS."""

    count: Number = UNSET
    active_jobs: ActivePer = ActivePer()
    per: PerAccountAndUser = PerAccountAndUser()


class QosTres(Value, frozen=True, gc=False):
    """Limits on the resources of a QOS."""

    total: Amounts = ()
    minutes: TresMinutes = TresMinutes()
    per: TresPer = TresPer()


class WallPer(Value, frozen=True, gc=False):
    """Limits on run time, in minutes."""

    qos: Number = UNSET
    job: Number = UNSET


class WallClock(Value, frozen=True, gc=False):
    """Limits on wall-clock time."""

    per: WallPer = WallPer()


class QosMax(Value, frozen=True, gc=False):
    """Upper limits of a QOS."""

    active_jobs: ActiveJobs = ActiveJobs()
    jobs: QosJobs = QosJobs()
    tres: QosTres = QosTres()
    wall_clock: WallClock = WallClock()


class QosMinTres(Value, frozen=True, gc=False):
    """Resources of which a job must request a minimum."""

    per: TresPer = TresPer()


class QosMin(Value, frozen=True, gc=False):
    """Lower limits of a QOS."""

    tres: QosMinTres = QosMinTres()


class QosLimits(Value, frozen=True, gc=False):
    """Every limit of a QOS."""

    grace_time: int | None = None
    max: QosMax = QosMax()
    min: QosMin = QosMin()
    factor: Number = UNSET


class QosPreempt(Value, frozen=True, gc=False):
    """The QOS that a QOS preempts, and how."""

    list: Words = ()
    mode: Words = ()
    exempt_time: Number = UNSET


class Qos(Value, frozen=True, gc=False):
    """A quality of service."""

    name: str
    description: str = ""
    id: int | None = None
    flags: Words = ()
    priority: Number = UNSET
    preempt: QosPreempt = QosPreempt()
    limits: QosLimits = QosLimits()
    usage_factor: Number = UNSET
    usage_threshold: Number = UNSET
