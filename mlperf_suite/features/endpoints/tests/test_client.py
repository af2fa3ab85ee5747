"""The rules for a run of the official client: pytest -m server --endpoint URL --client ..."""


def test_rule(official_client_verdict, expect):
    """Each rule of a scenario that the official client ran."""
    expect(official_client_verdict)
