import unittest

import pytest

from canal import toll


class BooksTest(unittest.TestCase):
    def test_sum_of_a_day(self):
        for boats, pence in ((1, 40), (2, 80)):
            with self.subTest(boats=boats):
                self.assertEqual(sum(toll(20) for _ in range(boats)), pence)

    @unittest.skip("the clerk is ill")
    def test_sum_of_a_year(self):
        self.fail()


@pytest.mark.xfail(reason="the clerk rounds to shillings")
def test_pence_are_kept():
    assert toll(20, 0.1) == 40
