"""Amounts that the jobs of a schedule hold together, counted event by event."""

from hindcast.pipeline.schedules.schedule import Schedule


def exceeded(schedule: Schedule) -> list[str]:
    """Return where a job starts within the window and more is held than there is."""
    facts, started, found = schedule.facts, schedule.jobs.drop_nulls("start_s"), []
    places = {None: started}
    if facts["machines"]:
        places = {key[0]: of for key, of in started.explode("machine").group_by("machine")}
    for place, jobs in places.items():
        for resource, whole in facts["capacity"].items():
            room = whole if place is None else facts["machines"][resource][place]
            changes = sorted(
                [(job["end_s"], 0, -job[resource]) for job in jobs.iter_rows(named=True)]
                + [(job["start_s"], 1, job[resource]) for job in jobs.iter_rows(named=True)]
            )
            held, levels = 0, facts["levels"].get(resource, [])
            for at, starts, amount in changes:
                held += amount
                level = [of for since, of in levels if since <= at][-1:] or [room]
                if starts and amount and at >= facts["from_s"] and held > level[0]:
                    found.append(f"{resource} of {place} at {at}: {held} of {level[0]}")
    return found
