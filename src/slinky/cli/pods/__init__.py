# SPDX-License-Identifier: Apache-2.0
"""Verbs that reach into pods: the output of jobs, and shells in login pods."""
