"""The curve of a server over fixed concurrencies: how it is measured, what it shows."""
