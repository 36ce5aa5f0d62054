"""Options of the tests here."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep", default="", help="the checkout in which goldens are to be written")
