"""Several engines on the nodes of a Ray cluster, as one engine.

Ray places them, starts and ends their processes and reports when one died; requests and answers use
the suite's own sockets. Only this package imports ray, and only inside functions.
"""
