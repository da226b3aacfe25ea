import pytest

from canal import toll


def test_toll_of_a_boat(boat):
    assert toll(**boat) == 55


@pytest.mark.parametrize("length", [1, 7, 24], ids=["punt", "day boat", "narrow::boat"])
def test_empty_boats_pay_by_length(length):
    assert toll(length) == 2 * length


@pytest.mark.parametrize("length", [0, -3])
def test_what_has_no_length_pays_nothing(length):
    with pytest.raises(ValueError, match="is no boat"):
        toll(length)
