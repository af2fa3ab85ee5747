"""Several engines on the nodes of a Ray cluster, as one engine.

Ray places them, starts and ends their processes and says when one died; requests and answers go
over sockets of the suite's own. ray is imported in this package alone, and only in functions.
"""
