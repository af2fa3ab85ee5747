"""The fixtures of nodes.py, for the replicas of a stand-in engine."""

from meta_tests.features.replicas.nodes import load, nodes

__all__ = ["load", "nodes"]
