"""
The page of `lanes ui`: what operators see and change in a browser, served on this machine with their own credentials.

Everything it shows and does goes through `lanes.operate` and `lanes.outbox.operate`, as the verbs do. This package
holds what a page needs beside that: routes, protection against other sites, previews and jobs.

Starlette and uvicorn serve it (the extra `ui`); `lanes.ui.application`, `lanes.ui.routes` and `lanes.ui.server` alone
import them. A parser of requests that may be hostile is no place for code of our own.
"""
