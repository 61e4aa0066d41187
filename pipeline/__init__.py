"""From a trace file to a report: workloads, simulators, datasets, evaluation. No torch here."""
