# SPDX-License-Identifier: Apache-2.0
"""The kind LoginSet: hosts with sshd, where users log in and submit jobs."""
