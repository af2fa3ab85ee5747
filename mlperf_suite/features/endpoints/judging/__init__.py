"""Judges what the official client wrote: results in trees, packages of MLPerf Endpoints."""
