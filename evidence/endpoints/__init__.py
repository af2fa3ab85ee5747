"""Packages of MLPerf Endpoints, judged by the suite and by endpoints-submission-cli."""
