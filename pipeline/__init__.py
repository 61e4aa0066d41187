"""From a trace file to a report, without torch, d3rlpy or Prefect.

Folders from the ground up; each imports those above it in this list only (tests/test_house.py):

    statistics   intervals, discounted sums, how numbers are written
    storage      files, URLs of stores, guards against foreign files
    workloads    canonical tables of tasks and machines
    traces       readers of raw traces
    simulation   the contract of compiled scenarios, policies, episodes one by one and in batches
    scenarios    the scheduling problems
    recipes      strict TOML, and the problem instances that it stands for
    dataset      reading: manifest, parts, episodes, transitions, minibatches
    documents    card, Croissant metadata, terms of use
    building     recording, resuming, appending
    history      recorded decisions of others, in and out
    evaluation   policies on common windows, and the summary of their scores
    exports, verification, inspection, studies, calibration, estimators
    report       one HTML page

`testing` has checks for scenarios, policies, datasets, readers and exports of your own.
"""
