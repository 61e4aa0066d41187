"""`python -m docs.generate.sizes DATASET...`: sizes of datasets as CSV, for docs/results/sizes.csv.

The column `provenance` is the key of the record of this process, which is printed to stderr for
docs/results/provenance.json: a build records no machine.

Each argument is a folder that `hindcast build RECIPE --out FOLDER` has written.
"""

import json
import sys
from collections.abc import Sequence

from hindcast.pipeline.dataset import open as open_dataset
from hindcast.pipeline.storage.provenance import key_of, provenance


def main(folders: Sequence[str]) -> None:
    """Print one row per dataset: recipe, its digest, episodes, decisions, bytes, sealed data."""
    record = provenance()
    key = key_of(record)
    print(json.dumps({key: record}, indent=2), file=sys.stderr)
    print("recipe,digest,episodes,decisions,bytes,provenance,data_sha256")
    for folder in folders:
        dataset = open_dataset(folder)
        recipe, counts = dataset.recipe, dataset.manifest.counts
        size = sum(p.stat().st_size for p in dataset.folder.rglob("*") if p.is_file())
        row = (recipe.id, recipe.digest, counts["episodes"], counts["decisions"], size, key)
        print(*row, dataset.manifest.data_sha256, sep=",")


if __name__ == "__main__":
    main(sys.argv[1:])
