# SPDX-License-Identifier: Apache-2.0
"""How a program ends a process on purpose."""


class RestartRequired(Exception):  # noqa: N818 -- a request, not a failure
    """Something that the process reads only at its start has changed: the process exits so that it is restarted."""


class ExplainedError(Exception):
    """An error whose message is complete for a person: it ends the process without a traceback in the log."""
