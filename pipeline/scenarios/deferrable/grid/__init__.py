"""`deferrable` on the hours of an electric grid: jobs wait for clean or cheap electricity.

The slots, the observation and the choices are those of `deferrable`. New are the hours x_h of a
series, which run beside the slots, and what follows from them:

    job       runs for r hours from its start s, which need not be whole slots, on c cores of p kW
              (with pue); in the capacity it takes the slots that it touches
    carbon    g = c p * integral of x from s to s + r; money likewise, per MWh
    latest    the last slot within the wait of the job, short_wait or long_wait by its known length;
              at the close of this slot it is started by force if it fits, else as soon as it fits,
              and is late. Jobs do not expire. In the last slot all that wait are started by
              force, even beyond the capacity.

    carbon    r = -kg of the jobs started            less waiting_weight x cores x hours waited
    price     r = -money                             likewise
    both      r = -(carbon_price x t + money)        likewise

Columns say what starting now costs per kW, and what the best start within the rest of the wait
does, by the forecast and the length as known. Rewards and outcomes use the truth. The bound is the
best start of each job; on limited cores it is Lagrangian, and jobs may be late.

With pausable = true, a chosen job runs for one slot and may pause
(hindcast.pipeline.scenarios.deferrable.grid.pauses). The bound is then of pieces, see
hindcast.pipeline.scenarios.deferrable.grid.bounds.

With reserved cores, money is the bill for cores
(hindcast.pipeline.scenarios.deferrable.grid.reserved).

With decide = "start", each job chooses its start once, at its submission
(hindcast.pipeline.scenarios.deferrable.grid.commitment).

With jobs = "log", the jobs of a window are those of any log that are submitted in its slots; they
can start from the next slot on. Without `align = "calendar"`, a window draws the day of the series
on which it begins, so that a log meets all seasons.
"""
