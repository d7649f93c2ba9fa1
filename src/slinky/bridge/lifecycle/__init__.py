# SPDX-License-Identifier: Apache-2.0
"""The life of a workload: decide, submit, place, bind, recover, release."""
