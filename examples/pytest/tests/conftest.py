import pytest


@pytest.fixture
def boat():
    return {"length": 20, "cargo": 3}
