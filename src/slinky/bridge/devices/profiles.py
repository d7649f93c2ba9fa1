# SPDX-License-Identifier: Apache-2.0
"""Device profiles: what the devices of a DRA driver are in Slurm. Pure.

The first profile that fits a device decides. A driver without any is a GPU of a type that has the driver's name; the
CPU driver is known. A driver whose profiles all choose by expression offers to Slurm only what they choose.
"""

import re
from collections.abc import Iterable, Sequence

from slinky.bridge.config import ConfigError, DeviceProfile
from slinky.bridge.devices import cel
from slinky.bridge.devices.cel_values import UnsupportedExpression

CPU_DRIVER = "dra.cpu"
BUILT_IN = (DeviceProfile(driver=CPU_DRIVER, cores=True),)

_DRIVER = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")
_GRES = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
#: Names that mean something else to Slurm. Shards of an external node are not tied to their GPU: measured, Slurm gives
#: away the whole GPU beside them.
_TAKEN = {"cpu": "CPUs are counted with cores: true", "shard": "Slurm does not keep shards apart from their GPU"}


def check_profiles(profiles: Iterable[DeviceProfile]) -> None:
    """Raises `ConfigError` that names the profile, the field and the reason."""
    whole: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        where = f"deviceProfiles[{number}] ({profile.driver or 'no driver'})"
        for field, reason in _mistakes(profile):
            raise ConfigError(f"{where}: {field}: {reason}")
        if profile.driver in whole:
            raise ConfigError(
                f"{where}: match: deviceProfiles[{whole[profile.driver]}] takes every device of the driver already"
            )
        if not profile.match:
            whole[profile.driver] = number


def _mistakes(profile: DeviceProfile) -> Iterable[tuple[str, str]]:
    if not _DRIVER.match(profile.driver):
        yield "driver", f"{profile.driver!r} is no name of a DRA driver"
    if not _GRES.match(profile.gres):
        yield "gres", f"{profile.gres!r} is no name of a GRES; it must be one of GresTypes in slurm.conf"
    if profile.gres in _TAKEN:
        yield "gres", f"{profile.gres} cannot be a device: {_TAKEN[profile.gres]}"
    if profile.type and not _TYPE.match(profile.type):
        yield "type", f"{profile.type!r} has other characters than letters, digits, '.', '_' and '-'"
    if sum(map(bool, (profile.type, profile.type_attribute, profile.untyped))) > 1:
        yield "type", "a profile has one of type, typeAttribute and untyped"
    if profile.cores and profile != DeviceProfile(driver=profile.driver, match=profile.match, cores=True):
        yield "cores", "CPUs have no GRES, no type and no index"
    try:
        cel.compile_expression(profile.match or "true")
    except UnsupportedExpression as error:
        yield "match", str(error)


def effective_profiles(profiles: Sequence[DeviceProfile]) -> tuple[DeviceProfile, ...]:
    """The profiles of a configuration, and the built-in ones of drivers that it does not name."""
    named = {profile.driver for profile in profiles}
    return (*profiles, *(profile for profile in BUILT_IN if profile.driver not in named))


def gres_type(profile: DeviceProfile, told: object = None) -> str:
    """The GRES type of a device that tells this under the profile's attribute."""
    if profile.untyped:
        return ""
    return _typed(str(told)) if told is not None else profile.type or profile.driver


def _typed(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_").lower()
