# SPDX-License-Identifier: Apache-2.0
"""Device profiles: how Slurm counts the devices of a DRA driver. Pure.

The first profile that matches a device applies. Devices of a driver without a profile are GPUs with the name of the
driver as type; the CPU driver has a built-in profile. If all profiles of a driver have a `match`, only the devices
that match one of them are reported to Slurm.
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
#: Names with another meaning in Slurm. Measured: Slurm does not tie the shards of an external node to their GPU and
#: allocates the whole GPU as well.
_RESERVED_NAMES = {
    "cpu": "use cores: true for CPUs",
    "shard": "Slurm allocates the GPU of a shard to other jobs as well",
}


def check_profiles(profiles: Iterable[DeviceProfile]) -> None:
    """Raises `ConfigError` that names the profile, the field and the reason."""
    without_match: dict[str, int] = {}  # by driver
    for number, profile in enumerate(profiles):
        where = f"deviceProfiles[{number}] ({profile.driver or 'no driver'})"
        for field, reason in _problems(profile):
            raise ConfigError(f"{where}: {field}: {reason}")
        if profile.driver in without_match:
            first = f"deviceProfiles[{without_match[profile.driver]}]"
            raise ConfigError(f"{where}: match: {first} already applies to every device of the driver")
        if not profile.match:
            without_match[profile.driver] = number


def _problems(profile: DeviceProfile) -> Iterable[tuple[str, str]]:
    if not _DRIVER.match(profile.driver):
        yield "driver", f"{profile.driver!r} is not the name of a DRA driver"
    if not _GRES.match(profile.gres):
        yield "gres", f"{profile.gres!r} is not the name of a GRES; use a name from GresTypes in slurm.conf"
    if profile.gres in _RESERVED_NAMES:
        yield "gres", f"{profile.gres} is not supported: {_RESERVED_NAMES[profile.gres]}"
    if profile.type and not _TYPE.match(profile.type):
        yield "type", f"{profile.type!r} has characters other than letters, digits, '.', '_' and '-'"
    if sum(map(bool, (profile.type, profile.type_attribute, profile.untyped))) > 1:
        yield "type", "only one of type, typeAttribute and untyped is allowed"
    if profile.cores and profile != DeviceProfile(driver=profile.driver, match=profile.match, cores=True):
        yield "cores", "CPUs have no GRES, no type and no index"
    try:
        cel.compile_expression(profile.match or "true")
    except UnsupportedExpression as error:
        yield "match", str(error)


def effective_profiles(profiles: Sequence[DeviceProfile]) -> tuple[DeviceProfile, ...]:
    """The configured profiles, and the built-in ones of drivers without a configured profile."""
    configured = {profile.driver for profile in profiles}
    return (*profiles, *(profile for profile in BUILT_IN if profile.driver not in configured))


def gres_type(profile: DeviceProfile, attribute: object = None) -> str:
    """The GRES type of a device; `attribute` is the value of the device's `typeAttribute`."""
    if profile.untyped:
        return ""
    return _normalize_type(str(attribute)) if attribute is not None else profile.type or profile.driver


def _normalize_type(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_").lower()
