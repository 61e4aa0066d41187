"""`python -m docs.generate.sizes DATASET...`: sizes of datasets as CSV, for docs/results/sizes.csv.

Each argument is a folder that `hindcast build RECIPE --out FOLDER` has written.
"""

import sys
from collections.abc import Sequence

from pipeline.dataset import open as open_dataset


def main(folders: Sequence[str]) -> None:
    """Print one row per dataset: recipe, its digest, episodes, decisions, bytes of all files."""
    print("recipe,digest,episodes,decisions,bytes")
    for folder in folders:
        dataset = open_dataset(folder)
        recipe, counts = dataset.recipe, dataset.manifest.counts
        size = sum(p.stat().st_size for p in dataset.folder.rglob("*") if p.is_file())
        print(recipe.id, recipe.digest, counts["episodes"], counts["decisions"], size, sep=",")


if __name__ == "__main__":
    main(sys.argv[1:])
