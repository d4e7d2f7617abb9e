"""Compares Spindle with uvicorn, Granian and Hypercorn: the same bytes, the same app, and what each server does.

The cases are in case_*.py. docs/design/030-python-server-peers.md lists the differences, and says which server is right
and why. The test is about Spindle, which must have the outcome of each case.

    cd python/tests && python -m server.peers              # print the outcomes that are not as the page has them
    cd python/tests && python -m server.peers --update     # write them to the page
    cd python/tests && python -m server.peers --case Host  # some cases, with all servers
"""
