"""Runs one program that a model wrote, isolated from the machine; needs no root."""
