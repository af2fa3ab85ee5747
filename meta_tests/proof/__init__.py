"""Tests of proof."""
