# SPDX-License-Identifier: Apache-2.0
"""The end of jobs: end a job (`releaser`, `completer`), record how its pods ended (`outcome`, `outcome_recorder`)."""
