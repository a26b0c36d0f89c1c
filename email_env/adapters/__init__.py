"""This env, and any Gymnasium env that speaks in messages, in the loops of other projects. The folder can be deleted.

`episode` is one episode, as all of these play it. Each other file is named after what it is for, and imports that
package, which is no dependency of this project. docs/interop.md says how each is used, and what differs there.
"""
