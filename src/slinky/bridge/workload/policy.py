# SPDX-License-Identifier: Apache-2.0
"""Who a workload is in Slurm: rules by namespace and service account, and what a PriorityClass means.

Without rules, annotations are trusted, as they always were. With rules, the first that fits decides: `refuse` and
`allow` bound what annotations may say, `default` fills what they leave out, `force` has the last word. Who somebody
is no annotation says then, unless a rule allows it.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from slinky.bridge import names
from slinky.bridge.config import ConfigError, PolicyRule, PriorityRule
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload.annotations import BY_NAME, TABLE, OptionError, parse_options

IDENTITY = tuple(option.name for option in TABLE if option.identity)


class PolicyViolation(OptionError):  # noqa: N818 -- named for what happened
    """The policy of this cluster does not allow an option."""


def check_policy(rules: Iterable[PolicyRule], priorities: Mapping[str, PriorityRule]) -> None:
    """Refuse a policy that names options which do not exist or values that do not parse. Raises `ConfigError`."""
    for rule in rules:
        for name in (*rule.force, *rule.default, *rule.allow, *rule.refuse):
            if name not in BY_NAME:
                raise ConfigError(f"policy: there is no option {name!r}")
        for name, value in (*rule.force.items(), *rule.default.items()):
            try:
                BY_NAME[name].parse(value)
            except ValueError as error:
                raise ConfigError(f"policy: {name}: {value!r} {error}") from None
    for name, rank in priorities.items():
        if not (given := _ranked(rank)):
            raise ConfigError(f"priorityClasses: {name} says nothing")
        try:
            parse_options(given)
        except OptionError as error:
            raise ConfigError(f"priorityClasses: {name}: {error}") from None


def matching_rule(rules: Iterable[PolicyRule], pod: WorkloadPod) -> PolicyRule | None:
    """The first rule that fits."""
    account = pod.spec.service_account_name or "default"
    for rule in rules:
        if _fits(rule.namespaces, pod.metadata.namespace) and _fits(rule.service_accounts, account):
            return rule
    return None


def apply_policy(
    annotations: Mapping[str, str],
    pod: WorkloadPod,
    rules: Iterable[PolicyRule],
    priorities: Mapping[str, PriorityRule],
) -> dict[str, str]:
    """The annotations after policy. Raises `Refused` if one asks for what it may not have."""
    ranked = _ranked(priorities.get(pod.spec.priority_class_name))
    known = tuple(rules)
    if not known:
        return {**ranked, **annotations}
    rule = matching_rule(known, pod) or PolicyRule()
    named = [name for name in IDENTITY if name not in rule.allow and name not in rule.force]
    for name in (*rule.refuse, *named):
        if names.OPTION + name in annotations:
            raise PolicyViolation(f"the option {name} is not allowed in namespace {pod.metadata.namespace}")
    merged = {**_keys(rule.default), **ranked, **annotations, **_keys(rule.force)}
    for name, allowed in rule.allow.items():
        given = merged.get(names.OPTION + name)
        if given is not None and not _fits(allowed, given.strip()):
            choices = ", ".join(allowed) or "none"
            raise PolicyViolation(
                f"{name} {given.strip()!r} is not allowed in namespace {pod.metadata.namespace}: {choices}"
            )
    return merged


def _ranked(rule: PriorityRule | None) -> dict[str, str]:
    if rule is None:
        return {}
    given = {"qos": rule.qos or None, "priority": rule.priority, "nice": rule.nice}
    return _keys({name: str(value) for name, value in given.items() if value is not None})


def _keys(options: Mapping[str, str]) -> dict[str, str]:
    return {names.OPTION + name: value for name, value in options.items()}


def _fits(patterns: Iterable[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)
