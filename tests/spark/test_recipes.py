"""The recipes that need Spark, as the documentation shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.recipes import RECIPES, Recipe

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

WITH_SPARK = [recipe for recipe in RECIPES if recipe.needs_spark]


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", WITH_SPARK, ids=lambda recipe: recipe.title)
def test_a_recipe_prints_what_it_shows(recipe: Recipe, tmp_path: Path) -> None:
    recipe.run(tmp_path, timeout_s=110)


def test_there_is_one() -> None:
    assert len(WITH_SPARK) == 1
