"""The fixtures of nodes.py, for every test of replicas."""

from meta_tests.features.replicas.nodes import load, nodes

__all__ = ["load", "nodes"]
