"""Work that waits for hours of an electric grid (hindcast.pipeline.traces.hourly).

    optimum      what anybody could save at most, from every hour
    forecasts    what a policy sees of the hours to come
    starts       published rules of when a job starts, and the books of started jobs

Carbon is in gCO2eq/kWh, the average over a zone's supply (life cycle, where the publisher says so),
not the emissions of the marginal plant. Hours are hours since 1970 (UTC), by their start.
"""
