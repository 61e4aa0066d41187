"""`deferrable` on the hours of an electric grid: jobs wait for clean or cheap electricity.

    features      columns, terms, outcomes, and where they lie in the memory
    observation   what is known in a slot, and the rows that show it
    dynamics      starts, pauses, forced starts, the books, rewards and outcomes
    bounds        costs that no policy is below
    instances     jobs and hours of a window

The slots, the observation and the choices are those of `deferrable`. New are the hours x_h of a
series, which run beside the slots, and what follows from them:

    job       runs for r hours from its start s, which need not be whole slots, on c cores of p kW
              (with pue); in the capacity it takes the slots that it touches
    carbon    g = c p * integral of x from s to s + r; money likewise, per MWh, or with reserved
              cores the bill for cores
    latest    the last slot within the wait of the job, short_wait or long_wait by its known length;
              at the close of this slot it is started by force if it fits, else as soon as it fits,
              and is late. Jobs do not expire. In the last slot all that wait are started by
              force, even beyond the capacity.

    carbon    r = -kg of the jobs started            less waiting_weight x cores x hours waited
    price     r = -money                             likewise
    both      r = -(carbon_price x t + money)        likewise

Work is started slot by slot; or each job chooses its start once, at its submission
(decide = "start"); or a chosen job runs for one slot and may pause (pausable = true). These are one
machine: a chosen start is the latest one from then on, and a piece of work is a job of one slot.

Columns say what starting now costs per kW, and what the best start within the rest of the wait
does, by the forecast and the length as known. Rewards and outcomes use the truth. The bound is the
best start of each job, or its cheapest hours; on limited cores it is Lagrangian, and jobs may be
late.

With jobs = "log", the jobs of a window are those of any log that are submitted in its slots; they
can start from the next slot on. Without `align = "calendar"`, a window draws the day of the series
on which it begins, so that a log meets all seasons.
"""
