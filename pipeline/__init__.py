"""Hindcast's data pipeline, from a trace file to a report, without torch, d3rlpy or Prefect.

Its folders from the ground up; each imports only those above it (checked by tests/test_house.py):

    statistics   confidence intervals, discounted sums, formatting of numbers
    storage      local files, URLs of stores, checks of untrusted files
    workloads    canonical tables of tasks and machines
    traces       readers of raw traces
    simulation   the contract of compiled scenarios; policies; single and batched episodes
    scenarios    the scheduling problems
    recipes      strict TOML files and the problem instances that they define
    dataset      readers: manifest, parts, episodes, transitions, minibatches
    documents    dataset card, Croissant metadata, terms of use
    building     recording, resuming and appending
    evaluation   policies scored on common windows, and summaries of their scores
    exports, verification, inspection, studies, estimators
    report       the HTML report

The module `testing` has checks for scenarios, policies, datasets, trace readers and exports.
"""
