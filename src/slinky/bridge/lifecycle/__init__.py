# SPDX-License-Identifier: Apache-2.0
"""The life of a workload: decide what to do next, submit, place, bind, recover, release."""
