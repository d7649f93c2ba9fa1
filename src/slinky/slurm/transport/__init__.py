# SPDX-License-Identifier: Apache-2.0
"""HTTP to slurmrestd: connection, session with token and version, endpoint table, decoding of responses."""
