"""Campaigns that attack the program for minutes; each is a command, none is part of `make test`.

python -m tests.attacks.clients --out FOLDER      foreign libraries in one shared cache
python -m tests.attacks.damages --out FILE        damaged datasets, workloads and checkpoints
python -m tests.attacks.engines --out FILE        workers, schedulers and commands killed
python -m tests.attacks.full_disk --out FILE      every writer on disks that are too small
python -m tests.attacks.hostile --out FILE        hostile recipes, manifests, traces, archives
python -m tests.attacks.kills --out FILE          commands killed at random moments
python -m tests.attacks.nights --out FILE         flow, worker and server of `nightly` killed
python -m tests.attacks.pairs --out FILE          commands at the same time in one folder
python -m tests.attacks.queued --out FILE         a queue of hundreds of flow runs on one server
"""
