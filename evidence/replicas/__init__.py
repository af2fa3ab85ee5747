"""Replicas of the real engine, and Ray clusters that lose a part."""
