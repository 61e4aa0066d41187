"""Picture of `multicluster`: how full the clusters were and are."""

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(spec: Spec) -> tuple[Panel, ...]:
    """Return free executors and queued tasks by cluster, and every cluster's occupation."""
    clusters = sum(feature.name.endswith("_index") for feature in spec.context)
    return (
        Panel("Free executors of the clusters, of all of the cluster", "bars",
              of={"key": "cluster", "to": "free"}, full="capability"),
        Panel("Tasks that wait in the clusters", "bars", of={"key": "cluster", "to": "queued"}),
        *(
            Panel(f"Share of cluster {c} occupied, {m.LAGS} steps ago to one step ago", "line",
                  tuple(f"cluster{c}_occupation_{lag}" for lag in range(m.LAGS, 0, -1)))
            for c in range(clusters)
        ),
    )  # fmt: skip
