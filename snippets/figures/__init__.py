# SPDX-License-Identifier: 0BSD
"""What the figures of the pages show: one module a page, one function a figure.

A function takes nothing and returns a picture or a player (see
`snippets.figures.picture`), made from runs that it records itself.
"""
