"""
The page of `lanes ui`, served on the operator's machine with the operator's credentials.

The page reads and changes lanes through `lanes.operate` and `lanes.outbox.operations`, as the verbs do. This package
adds the routes, the protection against other sites, the previews and the jobs.

Starlette and uvicorn serve the page (the extra `ui`); only `lanes.ui.server` imports them. They
parse requests that may be hostile, so that is left to a library.
"""
