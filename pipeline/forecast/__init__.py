"""Forecasts of when waiting jobs start, from plays of the queue with drawn run times."""
