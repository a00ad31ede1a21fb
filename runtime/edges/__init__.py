# SPDX-License-Identifier: GPL-3.0-or-later
"""Where programs meet their machine and the network: addresses, and the causes of what fails there.

Each file knows one kind of cause.  It looks before it blames: a sentence about a failure names what was looked at.
``doctor`` asks all of them at once.
"""
