"""Commands about schedules, as in `hindcast.flows.commands`."""
