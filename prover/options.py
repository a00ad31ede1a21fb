# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several of the provider's commands take."""

from ragseal.runtime.terminal import state_folder

STATE = state_folder("RAGSEAL_PROVIDER_STATE", "provider", "Folder with everything this provider keeps")
